"""The columns that metrics are made of, row by row (rows.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Amount, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.outcomes import Matches
from drivetrain.training.metric_states.output_errors import OutputErrors
from drivetrain.training.metric_states.ranking.ranks import Ranks
from drivetrain.training.metric_states.rows import Is
from drivetrain.training.metric_states.score_errors import ScoreErrors
from drivetrain.training.metric_states.texts import TokenMatches
from drivetrain.training.task import Kind, RankedBy, Task


@dataclass(frozen=True)
class Class:
    """The class that is right, or that is predicted."""

    num_classes: int
    predicted: bool

    @property
    def levels(self) -> int:
        return max(2, self.num_classes)

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return _given(samples.predicted if self.predicted else samples.targets)


@dataclass(frozen=True)
class Label:
    """True where a sample has a label, or is predicted to have it."""

    place: int
    predicted: bool
    levels: int = 2

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return _given(samples.predicted if self.predicted else samples.targets)[:, self.place]


@dataclass(frozen=True)
class Right:
    """True where the prediction is right; of several labels, all of them."""

    kind: Kind
    num_classes: int
    levels: int = 2

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return Matches(self.kind, self.num_classes).count(samples).cells


@dataclass(frozen=True)
class RightParts:
    """How many pixels, tokens or labels of a sample count; or which share of these is right."""

    kind: Kind
    num_classes: int
    counted: bool
    levels: int = 0

    def numbers(self, samples: Samples) -> NDArray[Any]:
        if self.kind == "multilabel":
            right = _given(samples.targets) == _given(samples.predicted)
            wrong, right = (~right).sum(axis=1), right.sum(axis=1)
        else:
            tally = TokenMatches() if self.kind == "tokens" else Matches(self.kind, self.num_classes)
            wrong, right = _given(tally.count(samples).amounts).T
        return wrong + right if self.counted else right / np.maximum(wrong + right, 1)


@dataclass(frozen=True)
class AmongFirst:
    """True where the right class is among the first `k`."""

    ranks: Ranks
    k: int
    levels: int = 2

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return self.ranks.count(samples).cells < self.k


@dataclass(frozen=True)
class OwnValue:
    """`loss`, or one of the recipe's own metrics."""

    name: str
    amount: Amount

    @property
    def levels(self) -> int:
        return 2 if self.amount == "bool" else 0

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return _given(samples.losses if self.name == "loss" else samples.values[self.name])


@dataclass(frozen=True)
class LossWeight:
    """The weight of a sample's loss."""

    levels: int = 0

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return np.ones(len(_given(samples.losses))) if samples.weights is None else samples.weights


@dataclass(frozen=True)
class OutputErrorOf:
    """The error of an output of a regression."""

    errors: OutputErrors
    place: int
    levels: int = 0

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return self.errors.errors(samples)[:, self.place]


@dataclass(frozen=True)
class ScoreErrorOf:
    """The error of the scores, divided."""

    errors: ScoreErrors
    divided_by: int = 1
    levels: int = 0

    def numbers(self, samples: Samples) -> NDArray[Any]:
        return self.errors.errors(samples) / self.divided_by


@dataclass(frozen=True)
class ErrorCost:
    """The cost of a sample's answer in a binary task: that of its error, 0 where it is right."""

    false_positive: float
    false_negative: float
    levels: int = 0

    def numbers(self, samples: Samples) -> NDArray[Any]:
        targets, predicted = _given(samples.targets), _given(samples.predicted)
        return np.where(targets == predicted, 0.0, np.where(predicted == 1, self.false_positive, self.false_negative))


@dataclass(frozen=True)
class Score:
    """The numbers by which samples are ranked for a class."""

    kind: Kind
    num_classes: int
    ranked_by: RankedBy
    place: int
    levels: int = 1

    def numbers(self, samples: Samples) -> NDArray[Any]:
        scores = checks.ranked(samples, self.kind, self.num_classes, self.ranked_by)
        return scores if self.kind == "binary" else scores[:, self.place]


def target_and_prediction(task: Task, place: int) -> tuple[Is, Is]:
    """Samples of a class, and those that are predicted to be (of labels: that have it)."""
    if task.kind == "multilabel":
        return Is(Label(place, False)), Is(Label(place, True))
    return Is(Class(task.num_classes, False), place), Is(Class(task.num_classes, True), place)


def _given(values: NDArray[Any] | None) -> NDArray[Any]:
    assert values is not None  # a tally has counted them
    return values
