"""Perplexity: among how many equally likely tokens a model hesitates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drivetrain.training.metric import FROM_ZERO, Ints, Range, UndefinedError, Value
from drivetrain.training.metric_states.own_values import WeightedLoss
from drivetrain.training.metric_states.rows import Mean
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric(WeightedLoss):
    """e to the power of the mean loss, for recipes with the mean of -log p over a sample's tokens as their loss.

    Each sample counts alike, however many tokens it has, unless the recipe weighs them (`loss_weights`).
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("tokens", "values")
    value_range: ClassVar[Range] = FROM_ZERO

    def rows(self, task: Task) -> Mapping[str, Mean]:
        return {"": replace(super().rows(task)[""], scale="exponential")}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        mean = super().compute(task, counted)[""].value
        try:
            return {"": Value(math.exp(mean), scale=(np.log, np.exp))}
        except OverflowError:
            raise UndefinedError(f"the mean loss is {mean:g}, and its exponential is no 64-bit number") from None
