"""The common part of metrics and curves of a ranking by score: a histogram, each class against the rest, and
averages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite, nan, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import and_more
from drivetrain.training.metric import SHARE, Ints, Range, Ranked, Ranking, Samples, UndefinedError, Value
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.numbers.enclosure import Enclosure, mean
from drivetrain.training.metric_states.ranking.score_histogram import (
    ScoreHistogram,
    check_resolution,
    resolution_for,
)
from drivetrain.training.metric_states.uncertainty.intervals import Limits, mean_of
from drivetrain.training.task import Kind, Task

WIDE = 1e-3
"""A bound above this comes with advice."""
ADVICE = "too many scores are equal or nearly so for a histogram: mode=exact gives the value itself"
HISTOGRAM = "scores"
# Classes that a reason names.
_NAMED = 10


def suffixes(task: Task) -> list[str]:
    """The suffix of a metric's name for each column of scores: empty for the one of binary."""
    return [""] if task.kind == "binary" else [f"class_{number}" for number in range(task.num_classes)]


def _ranked_as(suffix: str) -> str:
    return suffix or "class_1"


def both_sides(suffix: str, positives: int, negatives: int) -> int:
    """The number of pairs of a positive and a negative sample.

    Raises:
        UndefinedError: there is no such pair.
    """
    some_positive(suffix, positives)
    if not negatives:
        raise UndefinedError(f"all samples are of {_ranked_as(suffix).replace('_', ' ')}")
    return positives * negatives


def some_positive(suffix: str, positives: int) -> int:
    """`positives`.

    Raises:
        UndefinedError: there is no positive sample.
    """
    if not positives:
        raise UndefinedError(f"there is no sample of {_ranked_as(suffix).replace('_', ' ')}")
    return positives


@dataclass(frozen=True)
class OneVersusRest:
    """A metric made of the histogram of scores."""

    kinds: ClassVar[tuple[Kind, ...]] = ("binary", "multiclass", "multilabel")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = SHARE

    resolution: int = 0
    """2**resolution bins from 0 to 1, more of them near the ends; 0: as many as the number of classes lets fit into 16
    MB, and no more than 16."""

    def __post_init__(self) -> None:
        check_resolution(self.resolution)

    def tallies(self, task: Task) -> Mapping[str, ScoreHistogram]:
        return {HISTOGRAM: ScoreHistogram.of(task, self.resolution)}

    def coarser(self, task: Task, cells: int) -> OneVersusRest:
        own = ScoreHistogram.of(task, self.resolution).resolution
        return replace(self, resolution=resolution_for(task, cells, finest=own))

    def columns(self, task: Task, counted: Mapping[str, Ints]) -> dict[str, tuple[Ints, Ints]]:
        """Suffix -> (positives, negatives) of each bin."""
        split = self.tallies(task)[HISTOGRAM].split(counted[HISTOGRAM])
        return dict(zip(suffixes(task), split, strict=True))

    def ties(self, task: Task, ranked: Mapping[str, Ranked]) -> dict[str, NDArray[np.bool_]]:
        """Suffix -> which bins hold ties only: those of one float64, and where a ranking tells all scores, those of one
        score. Shape [bins] each."""
        histogram = self.tallies(task)[HISTOGRAM]
        few = {name: one.scores for name, one in ranked.items()}
        return {name: histogram.ties(few.get(_ranked_as(name))) for name in suffixes(task)}

    def rankings(self, task: Task, samples: Samples) -> Mapping[str, Ranking]:
        """
        Raises:
            InputError: as the histogram.
        """
        targets = checks.class_targets(samples, task.kind, task.num_classes)
        scores = checks.ranked(samples, task.kind, task.num_classes, task.ranked_by).astype("float64", copy=False)
        if task.kind == "binary":
            return {_ranked_as(""): Ranking(scores, targets == 1)}
        found: dict[str, Ranking] = {}
        for number, name in enumerate(suffixes(task)):
            positive = targets == number if task.kind == "multiclass" else targets[:, number] == 1
            found[_ranked_as(name)] = Ranking(scores[:, number], positive)
        return found

    def ranked(self, task: Task, found: Mapping[str, Ranked]) -> dict[str, Ranked]:
        """Suffix -> ranking of all samples, from the rankings of all metrics."""
        return {name: found[_ranked_as(name)] for name in suffixes(task)}


@dataclass(frozen=True)
class AreaByClass(OneVersusRest, ABC):
    """A metric that is a number a class, enclosed between two.

    A binary task has one result. Of several classes, `macro` is the mean of all and, as in scikit-learn, not defined
    where that of one class is not; `weighted` weighs a class by its positive samples, and one without any not at all.
    """

    per_class: bool = False
    """Each class as well: `class_0`, `class_1`, ..."""

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        return self.compute_of_some(task, counted, {})

    def compute_of_some(
        self, task: Task, counted: Mapping[str, Ints], ranked: Mapping[str, Ranked]
    ) -> Mapping[str, Value]:
        """See `HasTies`."""
        ties, columns = self.ties(task, ranked), self.columns(task, counted)
        sizes = {name: (int(ones.sum()), int(zeros.sum())) for name, (ones, zeros) in columns.items()}
        found = {
            name: partial(self.enclosed, name, *column, ties[name], sizes[name]) for name, column in columns.items()
        }
        return self._averages(task, found, sizes)

    def compute_exact(self, task: Task, ranked: Mapping[str, Ranked]) -> Mapping[str, Value]:
        """See `HasExact`."""
        columns = self.ranked(task, ranked)
        sizes = {name: (one.num_positives, one.num_negatives) for name, one in columns.items()}
        return self._averages(task, {name: partial(self.exact, name, one) for name, one in columns.items()}, sizes)

    @abstractmethod
    def enclosed(
        self, name: str, positives: Ints, negatives: Ints, ties: NDArray[np.bool_], size: tuple[int, int]
    ) -> Enclosure:
        """A class's number by its bins, of shape [bins] each; `size` is the number of positives and negatives in all.

        Raises:
            UndefinedError: the samples do not define it.
        """

    @abstractmethod
    def exact(self, name: str, ranked: Ranked) -> Enclosure:
        """A class's number by its ranking.

        Raises:
            UndefinedError: the samples do not define it.
        """

    @abstractmethod
    def limits(self, value: float, positives: int, negatives: int) -> Callable[[float], Limits]:
        """The interval of a class's number."""

    def _averages(
        self, task: Task, found: Mapping[str, Callable[[], Enclosure]], sizes: Mapping[str, tuple[int, int]]
    ) -> Mapping[str, Value]:
        """The values under their suffixes; one that is not defined is NaN and says why.

        Args:
            found: suffix -> what that class comes to; it may raise UndefinedError.
            sizes: suffix -> that class's positive and negative samples.

        Raises:
            UndefinedError: nothing is defined; the reason is that of the first class.
        """
        classes: dict[str, Enclosure | UndefinedError] = {}
        for name, one in found.items():
            try:
                classes[name] = one()
            except UndefinedError as error:
                classes[name] = error
        results = classes if task.kind == "binary" or self.per_class else {}
        if task.kind != "binary":
            every = list(classes.values())
            weights = [positives for positives, _ in sizes.values()]
            results = {"macro": _mean(every, [1] * len(every)), "weighted": _mean(every, weights), **results}
        if not any(isinstance(one, Enclosure) for one in results.values()):
            raise next(one for one in classes.values() if isinstance(one, UndefinedError))
        values = {
            name: one.value(ADVICE, WIDE) if isinstance(one, Enclosure) else Value(nan, advice=str(one))
            for name, one in results.items()
        }
        return {name: self._with_limits(name, value, task, classes, sizes) for name, value in values.items()}

    def _with_limits(
        self,
        name: str,
        value: Value,
        task: Task,
        classes: Mapping[str, Enclosure | UndefinedError],
        sizes: Mapping[str, tuple[int, int]],
    ) -> Value:
        if not isfinite(value.value):
            return value
        if name in classes:
            return replace(value, limits=self.limits(value.value, *sizes[name]))

        def of_mean(confidence: float) -> Limits:
            middles = {one: each.value().value for one, each in classes.items() if isinstance(each, Enclosure)}
            weights = [1 if name == "macro" else sizes[one][0] for one in middles]
            each = [self.limits(middle, *sizes[one]) for one, middle in middles.items()]
            # A sample is ranked for its own class, and changes the ranking of the class that it is taken for; labels
            # may vary together in any way.
            stretch = inf if task.kind == "multilabel" else sqrt(2)
            shares = [weight / sum(weights) for weight in weights]
            return mean_of(list(middles.values()), each, shares, stretch=stretch)(confidence)

        return replace(value, limits=of_mean)


def _mean(classes: Sequence[Enclosure | UndefinedError], weights: Sequence[int]) -> Enclosure | UndefinedError:
    """Weighted; or why it is not defined: since classes with some weight are not, or none has any."""
    enclosures: list[Enclosure] = []
    reasons: list[UndefinedError] = []
    for one, weight in zip(classes, weights, strict=True):
        if isinstance(one, Enclosure):
            enclosures.append(one)
        elif weight or not any(weights):
            reasons.append(one)
    if reasons:
        return UndefinedError(_reason([str(reason) for reason in reasons]))
    return mean(
        enclosures, [weight for one, weight in zip(classes, weights, strict=True) if isinstance(one, Enclosure)]
    )


def _reason(reasons: Sequence[str]) -> str:
    """Clauses that end in a class each as one: `there is no sample of class 2, 3, 7`."""
    classes: dict[str, list[str]] = {}
    for reason in reasons:
        clause, _, number = reason.rpartition(" ")
        classes.setdefault(clause, []).append(number)
    return "; ".join(f"{clause} {and_more(numbers, _NAMED)}" for clause, numbers in classes.items())
