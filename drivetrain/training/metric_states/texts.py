"""Counts of what texts and tokens have in common with the right ones: whole numbers, or exact sums.

sacrebleu and rouge-score are imported when they are counted with, and not before.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts, Ints, Samples
from drivetrain.training.metric_states.numbers import exact_sum

IGNORED = -100
_ORDER = 4


@dataclass(frozen=True)
class TokenMatches:
    """Tokens that count and were predicted wrong, and right."""

    @property
    def size(self) -> int:
        return 2

    def count(self, samples: Samples) -> Counts:
        targets, predicted = samples.targets, samples.predicted
        if targets is None or predicted is None:
            raise InputError(
                "token_accuracy needs the tokens that the model says: give the recipe a method predicted(outputs), "
                "such as outputs.argmax(dim=-1)."
            )
        counts = targets != IGNORED
        right = ((targets == predicted) & counts).sum(axis=1)
        amounts = np.stack([counts.sum(axis=1) - right, right], axis=1).astype(np.int64)
        return Counts(np.tile(np.arange(2), (len(targets), 1)), amounts)


@dataclass(frozen=True)
class BleuCounts:
    """Words of the predicted and of the right texts; of each length of runs those in common, and all predicted."""

    @property
    def size(self) -> int:
        return 2 + 2 * _ORDER

    def count(self, samples: Samples) -> Counts:
        bleu = _bleu()
        rows: list[list[int]] = []
        for predicted, right in zip(*texts_of(samples, "bleu"), strict=True):
            found = bleu.corpus_score([predicted], [[right]])
            rows.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
        amounts = np.array(rows, dtype=np.int64).reshape(-1, self.size)
        return Counts(np.tile(np.arange(self.size), (len(amounts), 1)), amounts)


@dataclass(frozen=True)
class RougeSum:
    """The sum of the F-measures, exact."""

    kind: str

    @property
    def size(self) -> int:
        return exact_sum.SIZE

    def count(self, samples: Samples) -> Counts:
        kind = self.kind.replace("rougel", "rougeL")  # as the library spells it
        scorer, pairs = _rouge(kind), zip(*texts_of(samples, "rouge"), strict=True)
        return exact_sum.spread([float(scorer.score(right, said)[kind].fmeasure) for said, right in pairs])

    def settle(self, cells: Ints) -> None:
        exact_sum.settle(cells)


def texts_of(samples: Samples, metric: str) -> tuple[Sequence[str], Sequence[str]]:
    """The model's texts, and the right ones.

    Raises:
        InputError: the recipe makes no texts.
    """
    if samples.texts is None:
        raise InputError(
            f"{metric} compares texts: give the recipe a method texts(outputs, targets) that returns what the model "
            "says and what is right, a text a sample each."
        )
    return samples.texts()


def library(name: str) -> Any:
    """
    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0].replace("_", "-")
        raise InputError(
            f"the metric is counted by {package}, which is not installed: pip install 'drivetrain[huggingface]'."
        ) from None


@cache
def _bleu() -> Any:
    return library("sacrebleu.metrics").BLEU()


@cache
def _rouge(kind: str) -> Any:
    return library("rouge_score.rouge_scorer").RougeScorer([kind], use_stemmer=False)
