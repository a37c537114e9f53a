"""Calibration error: how far the model's confidence lies from how often it is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, ClassVar

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.metric import SHARE, Ints, Kind, Range, Tally, Task, UndefinedError, Value
from drivetrain.training.metric_states.confidence import BITS, Bin, Confidences, RoundedConfidences
from drivetrain.training.metric_states.score_errors import advice_on, sums_of
from drivetrain.training.metric_states.uncertainty.intervals import Limits, worth

NORMS = ("l1", "l2", "max")
MOST_BINS = 1000


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
        """Chance alone makes distances: a model that is calibrated has a value above 0, the more so the more bins there
        are. A norm of what is measured is off from that of the truth by no more than the norm of the noise, of which
        the outcomes of each bin say how large it is."""
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
    """For slices and replicates, of which there may be many."""

    # Each confidence is off by half a step at most, and so are their means in bins and any norm of these that is
    # weighted by samples; the other half is for the roundings on the way.
    _bound: ClassVar[float] = 2.0**-BITS

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"confidences": self._confidences(task)}

    def _confidences(self, task: Task) -> Confidences:
        return RoundedConfidences(task.kind, task.num_classes, self.bins)
