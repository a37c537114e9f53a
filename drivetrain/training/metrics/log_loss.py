"""Log loss, or cross-entropy, of probabilities."""

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
    """The mean of -log(probability of the target's class), natural logarithm (scikit-learn's log_loss).

    As there, probabilities are clipped to [e, 1 - e], where e is 2.2e-16 (float32 scores: 1.2e-7): one wrong answer
    given with certainty would be infinite. Of logits it is -log_softmax of the target's class, which needs no clipping.
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary")
    higher_is_better: ClassVar[bool | None] = False
    value_range: ClassVar[Range] = FROM_ZERO

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"errors": self._errors(task), **sums_of(task)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        return {"": Mean(ScoreErrorOf(self._errors(task)))}

    def _errors(self, task: Task) -> ScoreErrors:
        error = "log_softmax" if task.ranked_by == "logits" else "log"
        return ScoreErrors(task.kind, task.num_classes, error)

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        (total,) = totals(counted["errors"])
        return {"": Value(float(total / num_samples(counted["errors"])), advice=advice_on(counted))}
