"""The cost of the errors of a binary model at its threshold, a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from drivetrain.base.errors import InputError
from drivetrain.training.metric import FROM_ZERO, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.confusion import ConfusionMatrix
from drivetrain.training.metric_states.row_columns import ErrorCost
from drivetrain.training.metric_states.rows import Form, Mean
from drivetrain.training.metrics._optimism import limits
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """(false_positive_cost * false positives + false_negative_cost * false negatives) / samples, where a sample is
    taken for class 1 from the threshold of the model or the evaluation on."""

    false_positive_cost: float = 1.0
    """The cost of taking a sample of class 0 for one of class 1."""
    false_negative_cost: float = 1.0
    """The cost of taking a sample of class 1 for one of class 0."""

    kinds: ClassVar[tuple[Kind, ...]] = ("binary",)
    higher_is_better: ClassVar[bool | None] = False
    value_range: ClassVar[Range] = FROM_ZERO

    def __post_init__(self) -> None:
        for name, cost in zip(("false_positive_cost", "false_negative_cost"), self._costs, strict=True):
            if not (isfinite(cost) and cost >= 0):
                raise InputError(f"{name}={cost:g}; allowed are costs from 0.")

    @property
    def _costs(self) -> tuple[float, float]:
        return self.false_positive_cost, self.false_negative_cost

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"confusion": ConfusionMatrix("binary", 2, 2)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        return {"": Mean(ErrorCost(*self._costs))}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        names = ("true_negatives", "false_positives", "false_negatives", "true_positives")
        confusion: dict[str, float] = dict(zip(names, counted["confusion"].tolist(), strict=True))
        num_samples = sum(confusion.values())
        if not num_samples:
            raise UndefinedError("there is no sample")
        total = sum(
            cost * confusion[name]
            for cost, name in zip(self._costs, ("false_positives", "false_negatives"), strict=True)
        )
        return {
            "": Value(
                total / num_samples,
                limits=lambda confidence: limits("cost", confusion, self._costs, 0.0, confidence),
                value_range=(0.0, max(self._costs)),
            )
        }
