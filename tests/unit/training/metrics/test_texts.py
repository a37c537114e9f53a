"""Metrics of tokens and of texts: sums over samples that come to what the libraries say of all texts together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, UndefinedError, load_metrics
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import metric, values

TASK = Task("tokens", 9)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "Not", "it's", "42", ","]
PAIRS = st.lists(st.tuples(*[st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)] * 2), min_size=1, max_size=12)


def of_texts(pairs: list[tuple[str, str]]) -> Samples:
    said, right = ([pair[side] for pair in pairs] for side in (0, 1))
    return Samples(losses=np.zeros(len(pairs)), texts=lambda: (said, right))


@settings(max_examples=30)
@given(PAIRS)
def test_bleu_is_sacrebleus_of_the_corpus(pairs: list[tuple[str, str]]) -> None:
    from sacrebleu.metrics import BLEU

    samples = of_texts(pairs)
    if not any(right.split() for _, right in pairs):
        with pytest.raises(UndefinedError, match="no text"):
            values(metric("bleu"), TASK, samples)
        return
    expected = BLEU().corpus_score([said for said, _ in pairs], [[right for _, right in pairs]]).score
    assert values(metric("bleu"), TASK, samples) == {"": min(expected, 100.0)}


def test_equal_texts_have_a_bleu_of_100() -> None:
    said = "the cat sat on a mat and did not move for a while"
    assert values(metric("bleu"), TASK, of_texts([(said, said)])) == {"": 100.0}


@settings(max_examples=20)
@given(PAIRS, st.sampled_from(["rouge1", "rouge2", "rougel"]))
def test_rouge_is_the_mean_of_rouge_scores(pairs: list[tuple[str, str]], kind: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    spelt = kind.replace("rougel", "rougeL")
    scorer = RougeScorer([spelt])
    expected = np.mean([scorer.score(right, said)[spelt].fmeasure for said, right in pairs])
    assert values(metric("rouge", kind=kind), TASK, of_texts(pairs))[""] == pytest.approx(expected, rel=1e-12)


def test_tokens_count_alike_in_long_and_short_texts() -> None:
    targets = np.array([[1, 2, 3, 4], [5, -100, -100, -100], [-100, -100, -100, -100]])
    predicted = np.array([[1, 2, 3, 9], [6, 0, 0, 0], [0, 0, 0, 0]])
    samples = Samples(losses=np.zeros(3), targets=targets, predicted=predicted)
    assert values(metric("token_accuracy"), TASK, samples) == {"": 3 / 5}
    nothing = Samples(losses=np.zeros(1), targets=targets[2:], predicted=predicted[2:])
    with pytest.raises(UndefinedError, match="no token that counts"):
        values(metric("token_accuracy"), TASK, nothing)


def test_missing_members_of_a_recipe_are_reported() -> None:
    plain = Samples(losses=np.zeros(1), targets=np.zeros((1, 2), np.int64))
    for name, method in (("token_accuracy", "predicted"), ("bleu", "texts"), ("rouge", "texts")):
        with pytest.raises(InputError, match=rf"give the recipe a method {method}\("):
            values(metric(name), TASK, plain)
    with pytest.raises(InputError, match="kind='rouge9'; allowed are rouge1, rouge2, rougel"):
        load_metrics("rouge(kind='rouge9')", TASK)
