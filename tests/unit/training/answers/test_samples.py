"""Answers of each task as samples, and the refusal of answers that the task does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.training.answers.test_table import KEYS, LABELS, SCORES, answers_of, refusal, samples_of

THREE = {
    "score_0": [0.1, 0.7, 0.2, 0.3, 0.5],
    "score_1": [0.2, 0.2, 0.2, 0.3, 0.25],
    "score_2": [0.7, 0.1, 0.6, 0.4, 0.25],
}
CLASSES = [2, 0, 1, 2, 0]
ANIMALS = {f"score_{name}": values for name, values in zip(("wasp", "ant", "bee"), THREE.values(), strict=True)}


def test_classes_are_numbered_or_named_by_their_columns(tmp_path: Path) -> None:
    shuffled = {name: THREE[name] for name in ("score_2", "score_0", "score_1")}
    numbered = answers_of(tmp_path, {"key": KEYS, **shuffled}, task="multiclass", labels=CLASSES)
    named = answers_of(
        tmp_path, {"key": KEYS, **ANIMALS}, task="multiclass", labels=["bee", "wasp", "ant", "bee", "wasp"]
    )
    assert (numbered.task.class_names, named.task.class_names) == ((), ("wasp", "ant", "bee"))
    for samples in (samples_of(numbered), samples_of(named)):
        assert samples.targets.tolist() == CLASSES and samples.predicted.tolist() == [2, 0, 2, 2, 0]
        assert samples.losses == pytest.approx(-np.log([0.7, 0.7, 0.2, 0.4, 0.5]), rel=1e-14)


def test_numbers_of_classes_may_be_texts_in_the_data(tmp_path: Path) -> None:
    binary = answers_of(tmp_path, {"key": KEYS, "score": SCORES}, labels=[str(each) for each in LABELS])
    assert samples_of(binary).targets.tolist() == LABELS
    texts = [str(each) for each in CLASSES]
    assert samples_of(
        answers_of(tmp_path, {"key": KEYS, **THREE}, task="multiclass", labels=texts)
    ).targets.tolist() == (CLASSES)


def test_what_a_model_answered_comes_before_what_its_scores_say(tmp_path: Path) -> None:
    columns = {"key": KEYS, **ANIMALS, "predicted": ["ant", "ant", "bee", "wasp", "bee"]}
    large = {**columns, "predicted": pa.array(columns["predicted"], pa.large_string())}
    assert samples_of(answers_of(tmp_path, large, task="multiclass", labels=CLASSES)).predicted.tolist() == [
        1,
        1,
        2,
        0,
        2,
    ]
    answers = answers_of(tmp_path, columns, task="multiclass", labels=CLASSES)
    assert samples_of(answers).predicted.tolist() == [1, 1, 2, 0, 2]
    told = refusal(tmp_path, {**columns, "predicted": [*columns["predicted"][:4], "fly"]}, task="multiclass")
    assert told == ("column 'predicted' of answers.parquet has 'fly', which is no class of its scores: wasp, ant, bee.")


def test_margins_without_scores_rank_and_have_no_loss(tmp_path: Path) -> None:
    columns = {"key": KEYS, "margin": [3.0, -2.0, 0.5, -0.1, 0.2], "predicted": [1, 0, 1, 0, 1]}
    answers = answers_of(tmp_path, columns)
    samples = samples_of(answers)
    assert answers.task.ranked_by == "raw scores" and samples.losses is None
    assert samples.margins.tolist() == columns["margin"]


def test_labels_of_a_row_and_numbers_of_a_row_are_lists(tmp_path: Path) -> None:
    labels = [[1, 0], [0, 0], [1, 1], [0, 1], [1, 0]]
    scores = {"score_0": SCORES, "score_1": SCORES[::-1]}
    samples = samples_of(answers_of(tmp_path, {"key": KEYS, **scores}, task="multilabel", labels=labels))
    right = np.where(np.array(labels) == 1, samples.scores, 1 - samples.scores)
    assert samples.losses == pytest.approx(-np.log(right).mean(axis=1), rel=1e-14)
    numbers = [[0.5, 1.0], [0.0, 2.0], [1.5, 1.0], [0.0, 0.0], [1.0, 3.0]]
    samples = samples_of(answers_of(tmp_path, {"key": KEYS, "predicted": numbers}, task="regression", labels=labels))
    assert samples.losses.tolist() == ((np.array(numbers) - np.array(labels)) ** 2).mean(axis=1).tolist()


def test_the_ends_of_intervals_give_coverage_and_width(tmp_path: Path) -> None:
    columns = {"key": KEYS, "predicted": SCORES, "low": [0.0, 0.1, 0.5, 1.0, 0.0], "high": [1.0, 0.3, 0.9, 2.0, 0.0]}
    answers = answers_of(tmp_path, columns, task="regression", labels=LABELS)
    samples = samples_of(answers)
    assert answers.values == {"coverage": "bool", "width": "float"} and answers.directions["width"] is False
    assert samples.values["coverage"].tolist() == [True, False, False, True, True]
    assert samples.values["width"] == pytest.approx([1.0, 0.2, 0.4, 1.0, 0.0])
    assert refusal(tmp_path, {**columns, "low": [9.0] * 5}, task="regression") == (
        "the interval of data/part-00000.parquet, row 1 (id='c7') is from 9 to 1; low must not be above high."
    )


def test_texts_are_compared_with_the_label(tmp_path: Path) -> None:
    answers = answers_of(
        tmp_path, {"key": KEYS, "text": ["a b", "c", "d", "e", "f"]}, task="text", labels=["a b", "c", "x", "e", "y"]
    )
    samples = samples_of(answers)
    assert samples.values["exact_match"].tolist() == [True, True, False, True, False]
    assert samples.losses.tolist() == [0, 0, 1, 0, 1]
    assert samples.texts is not None and samples.texts()[0][0] == samples.texts()[1][0] == "a b"


def test_a_target_in_the_table_must_agree_with_the_data(tmp_path: Path) -> None:
    columns = {"key": KEYS, "score": SCORES, "target": LABELS}
    assert samples_of(answers_of(tmp_path, columns)).targets.tolist() == LABELS
    assert refusal(tmp_path, {**columns, "target": [1, 0, 0, 1, 0]}) == (
        "column 'target' of answers.parquet has 0 for data/part-00000.parquet, row 3 (id='c9'), where the data has "
        "label=1. Give the answers to this data."
    )
    assert refusal(tmp_path, {**columns, "target": [str(each) for each in LABELS]}) == (
        "column 'target' of answers.parquet has '1' for data/part-00000.parquet, row 1 (id='c7'), where the data has "
        "label=1. Give the answers to this data."
    )


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no score": (
        {},
        {},
        "answers.parquet has no column score; binary needs score, or score and margin, or margin and ",
    ),
    "nan": (
        {"score": [0.9, 0.2, np.nan, 0.4, 0.5]},
        {},
        "the score of data/part-00000.parquet, row 3 (id='c9') is nan: correct what gave the answers.",
    ),
    "an empty value": (
        {"score": [0.9, None, 0.1, 0.4, 0.5]},
        {},
        "column 'score' of answers.parquet is empty or NaN in 1 place. Answer each row.",
    ),
    "percents": (
        {"score": [90.0, 20.0, 60.0, 40.0, 50.0]},
        {},
        "the score of data/part-00000.parquet, row 1 (id='c7') is 90.0; allowed are probabilities, from 0 to 1.",
    ),
    "text for scores": (
        {"score": ["high"] * 5},
        {},
        "column 'score' of answers.parquet is string, such as 'high', where numbers are expected.",
    ),
    "a class that the answers do not know": (
        {"score": SCORES},
        {"labels": [1, 0, 1, 2, 0]},
        "data/part-00001.parquet, row 1 (id='c1'): the label label=2 is no class of the answers, which have 0, 1.",
    ),
    "a text label of two classes": (
        {"score": SCORES},
        {"labels": ["yes", "no", "yes", "yes", "no"]},
        "data/part-00000.parquet, row 1 (id='c7'): the label label=yes is no class of the answers, which have 0, 1.",
    ),
    "a text label for a number": (
        {"predicted": SCORES},
        {"task": "regression", "labels": ["yes", "no", "yes", "yes", "no"]},
        "data/part-00000.parquet, row 1 (id='c7'): the label label is 'yes', which is no number, as regression needs.",
    ),
    "margins of other scores": (
        {"score": SCORES, "margin": [3.0, -2.0, 0.5, -0.1, 0.2]},
        {},
        "the margin of data/part-00000.parquet, row 1 (id='c7') is 3, and the score beside it is 0.9: a margin is ",
    ),
    "one score for several classes": (
        {"score": SCORES},
        {"task": "multiclass", "labels": CLASSES},
        "answers.parquet has one number a row in the column score; multiclass needs score_<class> for each class, or ",
    ),
    "an interval without its end": (
        {"predicted": SCORES, "low": SCORES},
        {"task": "regression", "labels": SCORES},
        "answers.parquet has no column high; regression needs predicted; low and high where there are intervals.",
    ),
    "lists for the ends of intervals": (
        {"predicted": SCORES, "low": [[0.1, 0.2]] * 5, "high": SCORES},
        {"task": "regression", "labels": SCORES},
        "answers.parquet has lists in low or high; allowed is one interval a row.",
    ),
    "a fraction for a class": (
        {"score": SCORES},
        {"labels": [0.5, 0, 1, 1, 0]},
        "data/part-00000.parquet, row 1 (id='c7'): the label label=0.5 is no class.",
    ),
    "scores that do not sum to 1": (
        {**THREE, "score_2": [0.7, 0.1, 0.9, 0.4, 0.25]},
        {"task": "multiclass", "labels": CLASSES},
        "the scores of data/part-00000.parquet, row 3 (id='c9') sum to 1.3 over the 3 classes, and not to 1.",
    ),
    "a class that is left out": (
        {"score_0": THREE["score_0"], "score_2": THREE["score_2"]},
        {"task": "multiclass", "labels": CLASSES},
        "answers.parquet has the columns score_0, score_2: classes are numbered from 0, each once.",
    ),
    "an unknown name of a class": (
        ANIMALS,
        {"task": "multiclass", "labels": ["bee", "wasp", "ant", "fly", "bee"]},
        "data/part-00001.parquet, row 1 (id='c1'): the label label=fly is no class of the answers, which have wasp, ",
    ),
    "texts for numbered classes": (
        THREE,
        {"task": "multiclass", "labels": ["bee", "wasp", "ant", "bee", "wasp"]},
        "data/part-00000.parquet, row 1 (id='c7'): the label label=bee is no class of the answers, which have 0, 1, 2. "
        "Name the classes by their columns: score_<class>.",
    ),
    "no task": ({"score": SCORES}, {"task": ""}, "answers.parquet does not say its task. Give task, one of binary, "),
    "two numbers for one": (
        {"predicted": [[0.5, 1.0]] * 5},
        {"task": "regression", "labels": SCORES},
        "data/part-00000.parquet, row 1 (id='c7'): the label label has 1 values, and the answers in answers.parquet ",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_answers_that_the_task_does_not_have_are_refused(case: str, tmp_path: Path) -> None:
    columns, given, expected = BAD[case]
    assert refusal(tmp_path, {"key": KEYS, **columns}, **given).startswith(expected)
