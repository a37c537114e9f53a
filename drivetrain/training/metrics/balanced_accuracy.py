"""Balanced accuracy: the mean of the recalls of the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import CORRELATION, SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.outcomes import Outcomes
from drivetrain.training.metric_states.row_columns import target_and_prediction
from drivetrain.training.metric_states.rows import Average, Form, Share
from drivetrain.training.metric_states.uncertainty.intervals import Limits, mean_of, share, with_absent
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """The mean over the classes that have a target of true positives / targets (scikit-learn's
    balanced_accuracy_score)."""

    adjusted: bool = False
    """Scaled so that guessing is 0 and 1 stays 1. Needs two classes."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary", "segmentation")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = CORRELATION

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"outcomes": Outcomes(task.kind, task.num_classes)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        if task.kind == "segmentation" or self.adjusted:
            return {}
        both = [target_and_prediction(task, place) for place in range(task.num_classes)]
        recalls = tuple(Share((claimed,), (target,)) for target, claimed in both)
        return {"": Average(recalls, tuple((target,) for target, _ in both))}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        table = Outcomes(task.kind, task.num_classes).table(counted["outcomes"])
        there = table.actual > 0
        num_classes = int(there.sum())
        limits = None if task.kind == "segmentation" else self._limits(task, table.found[there], table.actual[there])
        if not self.adjusted:
            value = math.fsum(table.found[there] / table.actual[there]) / num_classes
            return {"": Value(value, limits=limits, value_range=SHARE)}
        if num_classes == 1:
            raise UndefinedError("all samples are of one class, where guessing is always right")
        # (mean - 1 / C) / (1 - 1 / C), with one subtraction a class, so that what is near 0 keeps its digits.
        above = (num_classes * table.found[there] - table.actual[there]) / table.actual[there]
        return {"": Value(math.fsum(above) / (num_classes * (num_classes - 1)), limits=limits)}

    def _limits(self, task: Task, found: Ints, actual: Ints) -> Callable[[float], Limits]:
        count = len(found)
        each = [share(*one) for one in zip(found.tolist(), actual.tolist(), strict=True)]
        shares = (found / actual).tolist()
        of_mean = mean_of(shares, each, [1 / count] * count)
        of_mean = with_absent(math.fsum(shares) / count, of_mean, count, task.num_classes)

        def limits(confidence: float) -> Limits:
            low, high = of_mean(confidence)
            return ((low * count - 1) / (count - 1), (high * count - 1) / (count - 1)) if self.adjusted else (low, high)

        return limits
