"""The cheapest threshold of a binary model: from which score on a sample is taken for class 1.

A false positive and a false negative cost what the options say, and the threshold is the one with the least cost over
all samples (C. Elkan, "The Foundations of Cost-Sensitive Learning", 2001). It lies between two bins of the histogram of
scores, in the middle of the gap between the samples on both sides, so the counts on both sides of it are exact. Costs
are compared in whole numbers. Of several thresholds that cost the same, the one is taken that is nearest to what a
calibrated model would take: false_positive_cost / (false_positive_cost + false_negative_cost).

The threshold is chosen on these samples, so its cost on other samples is a little higher: the intervals of cost,
precision and recall reach further by what the choice gains (_optimism.py). That of the threshold is the bootstrap's,
which chooses anew in each replicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from math import isfinite, lcm, nextafter
from typing import Any, ClassVar

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Floats, Ints, Value
from drivetrain.training.metric_states.ranking.score_histogram import ScoreHistogram, lower_edges
from drivetrain.training.metric_states.uncertainty.intervals import Limits, worth
from drivetrain.training.metrics._one_versus_rest import HISTOGRAM, OneVersusRest, both_sides
from drivetrain.training.metrics._optimism import limits, optimism
from drivetrain.training.metrics._score_curve import MOST_POINTS, Thresholds, thinned
from drivetrain.training.task import Kind, Task

HIGHEST_COST = 1e9
RESOLUTION = 12
"""Thresholds are at most 2**-12 apart. Replicates have memory for it, those of slices too (metric_states/room.py)."""
# Other costs of (a false positive, a false negative), for the table of what would be chosen with them.
_OTHER_COSTS = ((10.0, 1.0), (5.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 5.0), (1.0, 10.0))


@dataclass(frozen=True)
class Metric(OneVersusRest):
    """The threshold with the least cost; `cost` is its cost a sample, `precision` and `recall` are those at it."""

    resolution: int = RESOLUTION
    """2**resolution bins from 0 to 1, more of them near the ends. Other bins may lead to another threshold, so there is
    no threshold if memory only allows coarser bins."""
    false_positive_cost: float = 1.0
    """The cost of taking a sample of class 0 for one of class 1."""
    false_negative_cost: float = 1.0
    """The cost of taking a sample of class 1 for one of class 0."""

    kinds: ClassVar[tuple[Kind, ...]] = ("binary",)
    higher_is_better: ClassVar[bool | None] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("false_positive_cost", "false_negative_cost"):
            cost = getattr(self, name)
            if not (isfinite(cost) and 0 < cost <= HIGHEST_COST):
                raise InputError(f"{name}={cost:g}; allowed are costs above 0, up to {HIGHEST_COST:g}.")

    def tallies(self, task: Task) -> Mapping[str, ScoreHistogram]:
        """Probabilities in every task: a threshold is compared with them."""
        return super().tallies(replace(task, ranked_by="probabilities"))

    def coarser(self, task: Task, cells: int) -> OneVersusRest:
        return self if self.tallies(task)[HISTOGRAM].size <= cells else _Spared(resolution=1)

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        thresholds, costs = self._thresholds(task, counted), self._costs
        at = _cheapest(thresholds, costs)
        chosen = _confusion(thresholds, at)
        found, missed, wrong = (chosen[f"{name}s"] for name in ("true_positive", "false_negative", "false_positive"))
        costs = self.false_positive_cost, self.false_negative_cost
        gains = cache(partial(optimism, *thresholds, costs))

        def value(name: str, number: float, **more: Any) -> Value:
            def interval(confidence: float) -> Limits:
                return limits(name, chosen, costs, gains(worth())[name], confidence)

            return Value(number, limits=interval, limits_suffice=True, **more)

        return {
            "": Value(chosen["threshold"], better="neither"),
            "cost": value("cost", self._cost(chosen), value_range=(0.0, max(costs))),
            "precision": value("precision", found / (found + wrong) if found else 0.0, better="higher"),
            "recall": value("recall", found / (found + missed), better="higher"),
        }

    def curves(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Mapping[str, Any]]:
        """Cost, precision and recall over thresholds, with what was chosen, and what would be with other costs."""
        thresholds = self._thresholds(task, counted)
        total = _total_cost(thresholds, self._costs).astype(np.float64)
        kept = thinned(1.0 - thresholds.scores, total / (total.max() or 1.0), MOST_POINTS)[::-1]
        scores, positives, negatives = (column[kept] for column in thresholds)
        samples = int(thresholds.positives[-1] + thresholds.negatives[-1])
        scale = self._costs[2] * samples
        return {
            "": {
                "kind": "threshold",
                "x": scores.tolist(),
                "y": (total[kept] / scale).tolist(),
                "x_label": "threshold",
                "y_label": "cost a sample",
                "precision": [p / max(p + n, 1) for p, n in zip(positives.tolist(), negatives.tolist(), strict=True)],
                "recall": (positives / thresholds.positives[-1]).tolist(),
                "best_at_some_costs": _hull(thresholds),
                "costs": {"false_positive": self.false_positive_cost, "false_negative": self.false_negative_cost},
                "chosen": self._row(_confusion(thresholds, _cheapest(thresholds, self._costs))),
                "at_half": self._row(_at_half(self.columns(task, counted)[""], self._edges(task))),
                "other_costs": [
                    Metric(self.resolution, *costs)._row(_confusion(thresholds, _cheapest(thresholds, _whole(*costs))))
                    for costs in _OTHER_COSTS
                ],
            }
        }

    @property
    def _costs(self) -> tuple[int, int, int]:
        return _whole(self.false_positive_cost, self.false_negative_cost)

    def _edges(self, task: Task) -> Floats:
        return lower_edges(self.tallies(task)[HISTOGRAM].resolution)

    def _thresholds(self, task: Task, counted: Mapping[str, Ints]) -> Thresholds:
        """
        Raises:
            UndefinedError: all samples are of one class.
        """
        positives, negatives = self.columns(task, counted)[""]
        both_sides("", int(positives.sum()), int(negatives.sum()))
        return _between_bins(positives, negatives, self._edges(task))

    def _cost(self, confusion: Mapping[str, float]) -> float:
        false_positive, false_negative, unit = self._costs
        total = false_positive * int(confusion["false_positives"]) + false_negative * int(confusion["false_negatives"])
        return float(
            Fraction(total, unit * int(sum(value for name, value in confusion.items() if name != "threshold")))
        )

    def _row(self, confusion: Mapping[str, float]) -> dict[str, float]:
        costs = {"false_positive": self.false_positive_cost, "false_negative": self.false_negative_cost}
        return {**costs, **confusion, "cost": self._cost(confusion)}


@dataclass(frozen=True)
class _Spared(Metric):
    """The metric with coarser bins, where memory demands them."""

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        """No values.

        Raises:
            UndefinedError: all samples are of one class.
        """
        self._thresholds(task, counted)
        return {}


def _between_bins(positives: Ints, negatives: Ints, edges: Floats) -> Thresholds:
    """One in each gap between bins with samples, one below all samples, and one above them unless some score 1."""
    used = np.flatnonzero(positives + negatives)[::-1]
    ends = np.append(edges, nextafter(1.0, 2.0))
    # Below a bin: the middle between its least score and the end of the next lower bin with samples.
    lower = np.append(ends[used[1:] + 1], 0.0)
    found = Thresholds.of(positives, negatives, edges)._replace(scores=(edges[used] + lower) / 2)
    if ends[used[0] + 1] > 1.0:
        return found
    above = (ends[used[0] + 1] + 1.0) / 2
    return Thresholds(*(np.append(first, column) for first, column in zip((above, 0, 0), found, strict=True)))


def _whole(false_positive: float, false_negative: float) -> tuple[int, int, int]:
    """Both costs as whole multiples of 1 / unit, and the unit."""
    one, other = (Fraction(str(cost)) for cost in (false_positive, false_negative))
    unit = lcm(one.denominator, other.denominator)
    return int(one * unit), int(other * unit), unit


def _total_cost(thresholds: Thresholds, costs: tuple[int, int, int]) -> np.ndarray:
    """The total cost at each threshold, in whole units, shape [m]; Python's integers if int64 is too small."""
    false_positive, false_negative, _ = costs
    positives, negatives = thresholds.positives, thresholds.negatives
    if false_positive * int(negatives[-1]) + false_negative * int(positives[-1]) >= 1 << 62:
        positives, negatives = positives.astype(object), negatives.astype(object)
    return false_positive * negatives + false_negative * (positives[-1] - positives)


def _cheapest(thresholds: Thresholds, costs: tuple[int, int, int]) -> int:
    """The place of the threshold to take."""
    total = _total_cost(thresholds, costs)
    best = np.flatnonzero(total == total.min())
    calibrated = costs[0] / (costs[0] + costs[1])
    return int(best[np.argmin(np.abs(thresholds.scores[best] - calibrated))])


def _hull(thresholds: Thresholds) -> dict[str, list[float]]:
    """The thresholds that can be the cheapest for some costs of errors, and what each takes for class 1.

    They are the corners of the convex hull of the ROC curve (F. Provost and T. Fawcett, "Robust Classification for
    Imprecise Environments", 2001)."""
    corners: list[tuple[float, int, int]] = []
    for score, ones, zeros in zip(*(column.tolist() for column in thresholds), strict=True):
        while len(corners) > 1:
            (_, p, n), (_, p_before, n_before) = corners[-1], corners[-2]
            if (ones - p) * (n - n_before) < (p - p_before) * (zeros - n):
                break
            corners.pop()
        corners.append((score, ones, zeros))
    kept = corners[:: -(-len(corners) // MOST_POINTS)]
    names = ("threshold", "true_positives", "false_positives")
    return {name: list(column) for name, column in zip(names, zip(*kept, strict=True), strict=True)}


def _confusion(thresholds: Thresholds, at: int) -> dict[str, float]:
    scores, positives, negatives = (column.tolist() for column in thresholds)
    return _counts(scores[at], positives[at], negatives[at], positives[-1], negatives[-1])


def _at_half(column: tuple[Ints, Ints], edges: Floats) -> dict[str, float]:
    """At 0.5, by which the other metrics tell the classes apart."""
    above = edges >= 0.5
    ones, zeros = (int(part[above].sum()) for part in column)
    return _counts(0.5, ones, zeros, *(int(part.sum()) for part in column))


def _counts(threshold: float, ones: int, zeros: int, positives: int, negatives: int) -> dict[str, float]:
    return {
        "threshold": threshold,
        "true_positives": ones,
        "false_positives": zeros,
        "true_negatives": negatives - zeros,
        "false_negatives": positives - ones,
    }
