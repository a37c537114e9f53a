"""The loss that the recipe was trained with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import ANY, Range
from drivetrain.training.metric_states.own_values import WeightedLoss


@dataclass(frozen=True)
class Metric(WeightedLoss):
    """The mean of the recipe's losses over the samples: their exact sum / samples, rounded once. Where the recipe
    weighs its samples (`loss_weights`): the exact sum of weights times losses / sum of weights."""

    value_range: ClassVar[Range] = ANY
