"""Calibration error: how far the model's confidence lies from how often it is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.metric import SHARE, Counts, Floats, Ints, Range, Samples, Tally, UndefinedError, Value
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.numbers.exact_sum import SIZE
from drivetrain.training.metric_states.score_errors import advice_on, sums_of
from drivetrain.training.metric_states.uncertainty.intervals import Limits, worth
from drivetrain.training.task import Kind, Task

NORMS = ("l1", "l2", "max")
MOST_BINS = 1000
BITS = 26
"""Behind the binary point, of a confidence that is rounded."""


@dataclass(frozen=True)
class Metric:
    """Over bins of equal width: |share of right samples - mean confidence|, weighted by samples (C. Guo et al., "On
    Calibration of Modern Neural Networks", 2017). Its curve is the reliability diagram.

    The confidence of a sample is the score of its predicted class; in a binary task it is that of class 1, which is
    `right` where class 1 is the target (scikit-learn's calibration_curve).
    """

    bins: int = 15
    """How many bins."""
    norm: str = "l1"
    """`l1` the mean of the distances, `l2` the root of the mean of their squares, `max` the largest one."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary")
    higher_is_better: ClassVar[bool | None] = False
    value_range: ClassVar[Range] = SHARE

    _bound: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.bins <= MOST_BINS:
            raise InputError(f"bins={self.bins}; allowed are 1 to {MOST_BINS} bins.")
        if self.norm not in NORMS:
            raise unknown_name("norm", self.norm, NORMS)

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"confidences": self._confidences(task), **sums_of(task)}

    def coarser(self, task: Task, cells: int) -> Metric:
        """With rounded confidences where the exact sums of each bin take more cells."""
        own = sum(tally.size for tally in self.tallies(task).values())
        return self if own <= cells else _Rounded(self.bins, self.norm)

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        bins = self._confidences(task).filled(counted["confidences"])
        if not bins:
            raise UndefinedError("there is no sample")
        n = sum(each.num_samples for each in bins)
        # Exact differences, rounded once: nothing is lost where confidence and share are almost the same.
        distances = [abs(float(each.num_right - each.confidence)) for each in bins]
        if self.norm == "l1":
            value = math.fsum(distances) / n
        elif self.norm == "max":
            value = max(d / each.num_samples for d, each in zip(distances, bins, strict=True))
        else:
            squares = math.fsum(d * d / each.num_samples for d, each in zip(distances, bins, strict=True))
            value = math.sqrt(squares / n)
        limits = partial(self._limits, value, bins, n)
        return {"": Value(value, self._bound, advice_on(counted), limits)}

    def _limits(self, value: float, bins: list[Bin], n: float, confidence: float) -> Limits:
        """Chance alone makes distances: even a calibrated model has a value above 0, and a larger one with more bins.
        The norm of the measured distances differs from the true norm by at most the norm of the noise; the outcomes of
        each bin show how large the noise is."""
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        n, sizes = n * worth(), [each.num_samples * worth() for each in bins]
        # Not 0 where all of a bin are right, perhaps by chance.
        shares = [(each.num_right * worth() + 0.5) / (size + 1) for each, size in zip(bins, sizes, strict=True)]
        spreads = [size * share * (1 - share) for size, share in zip(sizes, shares, strict=True)]
        if self.norm == "max":
            z = NormalDist().inv_cdf(1 - (1 - confidence) / 2 / len(bins))
            noise = z * max(math.sqrt(spread) / size for spread, size in zip(spreads, sizes, strict=True))
            return max(0.0, value - noise), value + noise
        if self.norm == "l1":
            reach = z * math.sqrt(math.fsum(spreads)) / n
            mean = math.sqrt(2 / math.pi) * math.fsum(map(math.sqrt, spreads)) / n
            return max(0.0, value - mean - reach * math.sqrt(1 - 2 / math.pi)), value + reach
        each = [spread / size / n for spread, size in zip(spreads, sizes, strict=True)]
        noise = math.sqrt(math.fsum(each) + z * math.sqrt(2 * math.fsum(one * one for one in each)))
        return max(0.0, value - noise), value + noise

    def curves(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Mapping[str, Any]]:
        bins: list[Bin] = self._confidences(task).filled(counted["confidences"])
        return {
            "": {
                "kind": "reliability",
                "x": [float(each.confidence / each.num_samples) for each in bins],
                "y": [each.num_right / each.num_samples for each in bins],
                "counts": [each.num_samples for each in bins],
                "x_label": "mean confidence",
                "y_label": "share of class 1" if task.kind == "binary" else "share of right predictions",
            }
        }

    def _confidences(self, task: Task) -> Confidences:
        return Confidences(task.kind, task.num_classes, self.bins)


@dataclass(frozen=True)
class _Rounded(Metric):
    """For slices and replicates, since there may be many."""

    # Each confidence is off by half a step at most, and so are their means in bins and any norm of these that is
    # weighted by samples; the other half is for the roundings on the way.
    _bound: ClassVar[float] = 2.0**-BITS

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"confidences": self._confidences(task)}

    def _confidences(self, task: Task) -> Confidences:
        return RoundedConfidences(task.kind, task.num_classes, self.bins)


class Bin(NamedTuple):
    """The samples of a bin."""

    num_samples: int
    num_right: int
    confidence: Fraction
    """The exact sum of their confidences."""


@dataclass(frozen=True)
class Confidences:
    """For each bin, the sum of the confidences (SIZE cells), and the numbers of wrong and of right samples.

    A sample's confidence is the score of the class that is predicted for it, and the sample is right where that is its
    target. In a binary task it is the score of class 1, and `right` means that class 1 is the target.
    """

    kind: Kind
    num_classes: int
    bins: int

    @property
    def size(self) -> int:
        return self.bins * (SIZE + 2)

    def count(self, samples: Samples) -> Counts:
        confidences, bins, right = self.in_bins(samples)
        sums = exact_sum.spread(confidences)
        assert sums.amounts is not None
        outcomes = (self.bins * (SIZE + right) + bins)[:, None]
        cells = np.concatenate([sums.cells + (bins * SIZE)[:, None], outcomes], axis=1)
        return Counts(cells, np.concatenate([sums.amounts, np.ones_like(outcomes)], axis=1))

    def in_bins(self, samples: Samples) -> tuple[Floats, Ints, NDArray[np.bool_]]:
        """The confidence of each sample, its bin, and whether it is right, shape [n] each."""
        if self.kind == "binary":
            right = checks.class_targets(samples, self.kind, self.num_classes).astype(bool)
            confidences = checks.scores(samples, self.kind, self.num_classes)
        else:
            targets, predicted = checks.classes(samples, self.kind, self.num_classes)
            right = targets == predicted
            scores = checks.scores(samples, self.kind, self.num_classes)
            confidences = np.take_along_axis(scores, predicted[:, None], axis=1)[:, 0]
        confidences = confidences.astype(np.float64)
        # A bin has its upper edge, and not its lower one, as in scikit-learn's calibration_curve.
        inner_edges = np.linspace(0, 1, self.bins + 1)[1:-1]
        return confidences, np.searchsorted(inner_edges, confidences), right

    def settle(self, cells: Ints) -> None:
        last = self.bins * SIZE
        exact_sum.settle(cells[..., :last].reshape(*cells.shape[:-1], self.bins, SIZE))

    def filled(self, counted: Ints) -> list[Bin]:
        """The bins that are not empty, upwards."""
        sums = counted[: self.bins * SIZE].reshape(self.bins, SIZE)
        wrong, right = counted[self.bins * SIZE :].reshape(2, self.bins).tolist()
        return [
            Bin(wrong[place] + right[place], right[place], exact_sum.total(sums[place]))
            for place in range(self.bins)
            if wrong[place] + right[place]
        ]


@dataclass(frozen=True)
class RoundedConfidences(Confidences):
    """The same in 3 cells a bin instead of 70: confidences are rounded to steps of 2**-BITS before they are summed up.

    A step is small enough for 2**36 samples.
    """

    @property
    def size(self) -> int:
        return 3 * self.bins

    def count(self, samples: Samples) -> Counts:
        confidences, bins, right = self.in_bins(samples)
        amounts = np.rint(np.ldexp(confidences, BITS)).astype(np.int64)
        cells = np.stack([bins, self.bins * (1 + right) + bins], axis=1)
        return Counts(cells, np.stack([amounts, np.ones_like(amounts)], axis=1))

    def settle(self, cells: Ints) -> None:
        """There is nothing to carry."""

    def filled(self, counted: Ints) -> list[Bin]:
        return [
            Bin(wrong + right, right, Fraction(confidence, 1 << BITS))
            for confidence, wrong, right in counted.reshape(3, self.bins).T.tolist()
            if wrong + right
        ]
