"""Brier score: the squared distance of probabilities from what came true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import FROM_ZERO, Ints, Range, Tally, Value
from drivetrain.training.metric_states.numbers.sums import num_samples, totals
from drivetrain.training.metric_states.row_columns import ScoreErrorOf
from drivetrain.training.metric_states.rows import Form, Mean
from drivetrain.training.metric_states.score_errors import ScoreErrors, advice_on, sums_of
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """The mean of the sum over the classes of (probability - outcome)^2 (G. Brier, "Verification of forecasts expressed
    in terms of probability", 1950); of two classes half of that, which is the square for class 1 alone (scikit-learn's
    brier_score_loss)."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary")
    higher_is_better: ClassVar[bool | None] = False
    value_range: ClassVar[Range] = FROM_ZERO

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"errors": self._errors(task), **sums_of(task)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        return {"": Mean(ScoreErrorOf(self._errors(task), _halves(task)))}

    def _errors(self, task: Task) -> ScoreErrors:
        return ScoreErrors(task.kind, task.num_classes, "brier")

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        halves = _halves(task)
        (total,) = totals(counted["errors"])
        most = 1 if task.kind == "binary" else task.num_classes / halves  # of probabilities that need not add up to 1
        value = float(total / (num_samples(counted["errors"]) * halves))
        return {"": Value(value, advice=advice_on(counted), value_range=(0.0, most))}


def _halves(task: Task) -> int:
    return 2 if task.kind == "multiclass" and task.num_classes == 2 else 1
