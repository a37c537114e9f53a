"""The loss that the recipe was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import ANY, Ints, Kind, Range, Tally, Task, Value
from drivetrain.training.metric_states.own_values import WeightedLoss
from drivetrain.training.metric_states.rows import Form

LOSS = WeightedLoss()


@dataclass(frozen=True)
class Metric:
    """The mean of the recipe's losses over the samples: their exact sum / samples, rounded once. Where the recipe
    weighs its samples (`loss_weights`): the exact sum of weights times losses / sum of weights."""

    kinds: ClassVar[tuple[Kind, ...]] = (
        "multiclass",
        "binary",
        "multilabel",
        "regression",
        "tokens",
        "segmentation",
        "values",
    )
    higher_is_better: ClassVar[bool | None] = False
    value_range: ClassVar[Range] = ANY

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return LOSS.tallies(task)

    def rows(self, task: Task) -> Mapping[str, Form]:
        return LOSS.rows(task)

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        return LOSS.compute(task, counted)
