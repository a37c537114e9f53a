"""Curves over all thresholds: of the counts in a histogram of scores, or of an exact ranking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from drivetrain.training.metric import Floats, Ints, Ranked, UndefinedError, Value
from drivetrain.training.metric_states.ranking.score_histogram import shown
from drivetrain.training.metrics._one_versus_rest import HISTOGRAM, OneVersusRest
from drivetrain.training.task import Task

MOST_POINTS = 1000
"""The most points of a curve; all curves of a metric together have 100 times as many, and each of them 20 at least."""


class Thresholds(NamedTuple):
    """Falling thresholds where samples are, shape [m] each, and how many samples score as high or higher."""

    scores: Floats
    positives: Ints
    negatives: Ints

    @classmethod
    def of(cls, positives: Ints, negatives: Ints, edges: Floats) -> Thresholds:
        used = np.flatnonzero(positives + negatives)[::-1]
        return cls(edges[used], np.cumsum(positives[used]), np.cumsum(negatives[used]))

    @classmethod
    def exactly(cls, task: Task, ranked: Ranked) -> Thresholds:
        scores, positives, negatives = zip(*ranked.curve, strict=True)
        return cls(
            shown(task.ranked_by, np.array(scores)), np.array(positives, np.int64), np.array(negatives, np.int64)
        )


@dataclass(frozen=True)
class CurveOfScores(OneVersusRest, ABC):
    """A metric without numbers: one curve, of several classes one a class. Each point is exact."""

    higher_is_better: ClassVar[bool | None] = None

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        """No values.

        Raises:
            UndefinedError: no class has a curve.
        """
        self._defined(task, counted)
        return {}

    def curves(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Mapping[str, Any]]:
        """Suffix -> curve; a class that has none is left out.

        Raises:
            UndefinedError: no class has a curve.
        """
        edges = self.tallies(task)[HISTOGRAM].lower_edges()
        columns = self._defined(task, counted)
        most = _most(task)
        return {name: self.curve(Thresholds.of(*column, edges), most) for name, column in columns.items()}

    def curves_exact(self, task: Task, ranked: Mapping[str, Ranked]) -> Mapping[str, Mapping[str, Any]]:
        """As `curves`; the thresholds are scores that there are.

        Raises:
            UndefinedError: no class has a curve.
        """
        columns, most = self.ranked(task, ranked), _most(task)
        numbers = {name: (one.num_positives, one.num_negatives) for name, one in columns.items()}
        return {name: self.curve(Thresholds.exactly(task, columns[name]), most) for name in self._with_curve(numbers)}

    def _defined(self, task: Task, counted: Mapping[str, Ints]) -> dict[str, tuple[Ints, Ints]]:
        """(positives, negatives) of each bin, of the classes that have a curve.

        Raises:
            UndefinedError: none has.
        """
        columns = self.columns(task, counted)
        numbers = {name: (int(ones.sum()), int(zeros.sum())) for name, (ones, zeros) in columns.items()}
        return {name: columns[name] for name in self._with_curve(numbers)}

    def _with_curve(self, numbers: Mapping[str, tuple[int, int]]) -> list[str]:
        """Name the classes that have a curve, given their numbers of positives and negatives.

        Raises:
            UndefinedError: none has.
        """
        found: list[str] = []
        reasons: list[UndefinedError] = []
        for name, (positives, negatives) in numbers.items():
            try:
                self.check(name, positives, negatives)
                found.append(name)
            except UndefinedError as error:
                reasons.append(error)
        if not found:
            raise reasons[0]
        return found

    @abstractmethod
    def check(self, name: str, positives: int, negatives: int) -> None:
        """
        Raises:
            UndefinedError: a class with so many samples has no curve.
        """

    @abstractmethod
    def curve(self, thresholds: Thresholds, most: int) -> Mapping[str, Any]:
        """The curve of one class, of `most` points at most."""


def _most(task: Task) -> int:
    return max(20, min(MOST_POINTS, 100 * MOST_POINTS // task.num_classes))


def thinned(x: Floats, y: Floats, most: int) -> Ints:
    """The places of at most `most` points of a curve whose x does not fall, both ends among them, as evenly as can be.

    Two of them are no further apart, in x and in y, than the way along the curve over `most` - 2 and one step of it.
    """
    if len(x) <= most:
        return np.arange(len(x))
    way = np.diff(y)
    np.abs(way, out=way)
    np.cumsum(way, out=way)
    way = np.concatenate([[0.0], way])
    way += x - x[0]
    marks = np.linspace(0.0, way[-1], most - 1)
    return np.unique(np.append(np.searchsorted(way, marks).clip(max=len(x) - 1), len(x) - 1))


def points(x: Floats, y: Floats, scores: Floats, most: int) -> dict[str, list[float | None]]:
    """The curve through (x[0], y[0]), which no sample reaches, and a point for each threshold, as plain JSON."""
    kept = thinned(x, y, most)
    above: list[float | None] = [None, *scores[kept[1:] - 1].tolist()]
    return {"x": x[kept].tolist(), "y": y[kept].tolist(), "thresholds": above}
