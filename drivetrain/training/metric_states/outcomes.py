"""How often each class was found, missed and claimed in vain: four numbers a class, without a full matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drivetrain.training.metric import Counts, Ints, Samples, UndefinedError
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.uncertainty.intervals import Limits, share
from drivetrain.training.task import Kind


class ClassTable(NamedTuple):
    """Counts by class, int64 [C] each."""

    found: Ints
    """True positives."""
    claimed_in_vain: Ints
    """False positives."""
    missed: Ints
    """False negatives."""
    rejected: Ints
    """True negatives."""

    @property
    def actual(self) -> Ints:
        """Targets of the class."""
        return self.found + self.missed

    @property
    def claimed(self) -> Ints:
        """Predictions of the class."""
        return self.found + self.claimed_in_vain

    @property
    def num_samples(self) -> int:
        """Samples, or pixels that count."""
        return int(sum(column[0] for column in self))


@dataclass(frozen=True)
class Outcomes:
    """Outcomes a class.

    Cells by kind:
        binary         4: 2 * target + prediction
        multilabel     4 C: true positives, false positives, false negatives, true negatives
        multiclass,    3 C + 1: true positives, false positives, false negatives; the last cell takes what a right
        segmentation   sample has no second cell for, and says nothing
    """

    kind: Kind
    num_classes: int

    @property
    def size(self) -> int:
        if self.kind == "binary":
            return 4
        return 4 * self.num_classes if self.kind == "multilabel" else 3 * self.num_classes + 1

    def count(self, samples: Samples) -> Counts:
        targets, predicted = checks.classes(samples, self.kind, self.num_classes)
        if self.kind == "binary":
            return Counts(2 * targets + predicted)
        if self.kind == "multilabel":
            # 0 where both are 1, 1 where the prediction is, 2 where the target is, 3 where neither is.
            outcomes = 3 - 2 * predicted - targets
            return Counts(outcomes * self.num_classes + np.arange(self.num_classes))
        nowhere, right = self.size - 1, targets == predicted
        first = np.where(right, targets, self.num_classes + predicted)
        second = np.where(right, nowhere, 2 * self.num_classes + targets)
        if self.kind == "multiclass":
            return Counts(np.stack([first, second], axis=1))
        ignored = targets == checks.IGNORED
        first[ignored] = second[ignored] = nowhere
        return fewest(np.concatenate([first, second], axis=1), self.size)

    def table(self, counted: Ints) -> ClassTable:
        """
        Raises:
            UndefinedError: nothing was counted.
        """
        if self.kind == "binary":
            rejected, in_vain, missed, found = counted
            columns = np.array([[rejected, found], [missed, in_vain], [in_vain, missed], [found, rejected]])
        elif self.kind == "multilabel":
            columns = counted.reshape(4, -1)
        else:
            columns = np.empty((4, self.num_classes), np.int64)
            columns[:3] = counted[:-1].reshape(3, -1)
            # Each sample has one target: it was found, or missed.
            columns[3] = columns[0].sum() + columns[2].sum() - columns[:3].sum(axis=0)
        table = ClassTable(*columns)
        if not table.num_samples:
            raise UndefinedError("there is no sample that counts")
        return table


@dataclass(frozen=True)
class Matches:
    """How many predictions are wrong and right: 2 cells. Of a multilabel task those of all labels have to be right."""

    kind: Kind
    num_classes: int

    @property
    def size(self) -> int:
        return 2

    def count(self, samples: Samples) -> Counts:
        targets, predicted = checks.classes(samples, self.kind, self.num_classes)
        right = targets == predicted
        if self.kind == "segmentation":
            ignored = targets == checks.IGNORED
            amounts = np.stack([(~right & ~ignored).sum(axis=1), right.sum(axis=1)], axis=1)
            return Counts(np.broadcast_to(np.arange(2), amounts.shape), amounts)
        return Counts((right.all(axis=1) if self.kind == "multilabel" else right).astype(np.int64))


def beyond_chance(value: float, table: ClassTable) -> Callable[[float], Limits] | None:
    """The interval of an agreement beyond chance (Cohen's kappa; Matthews' coefficient, which is the same where classes
    are predicted as often as they occur): that of the accuracy, in the measure of what chance leaves over. None where
    it leaves nothing."""
    n, right = table.num_samples, int(table.found.sum())
    chance = sum(a * c for a, c in zip(table.actual.tolist(), table.claimed.tolist(), strict=True)) / n**2
    if chance >= 1:
        return None

    def limits(confidence: float) -> Limits:
        low, high = (value + (end - right / n) / (1 - chance) for end in share(right, n)(confidence))
        return max(low, -1.0), min(high, 1.0)

    return limits


def fewest(cells: Ints, size: int) -> Counts:
    """One entry a cell instead of one a pixel, where that is less: shape [n, min(k, size)]."""
    num_samples, per_sample = cells.shape
    if per_sample <= size:
        return Counts(cells)
    flat = cells + size * np.arange(num_samples)[:, None]
    amounts = np.bincount(flat.ravel(), minlength=num_samples * size).reshape(num_samples, size)
    return Counts(np.broadcast_to(np.arange(size), amounts.shape), amounts)
