"""Quantile error, or pinball loss: how good an estimate of a quantile is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drivetrain.base.errors import InputError
from drivetrain.training.metric_states.output_errors import OutputError, OutputErrors
from drivetrain.training.metrics._by_output import ByOutput
from drivetrain.training.task import Task


@dataclass(frozen=True)
class Metric(ByOutput):
    """The mean of q * (target - output) where the output is too low, (1 - q) * (output - target) where it is too high
    (R. Koenker and G. Bassett, "Regression Quantiles", 1978; scikit-learn's mean_pinball_loss)."""

    q: float = 0.5
    """The quantile that the model estimates, above 0 and below 1."""

    def __post_init__(self) -> None:
        if not 0 < self.q < 1:
            raise InputError(f"q={self.q}; allowed is a number above 0 and below 1.")

    error: ClassVar[OutputError] = "pinball"

    def errors(self, task: Task) -> OutputErrors:
        return OutputErrors(task.num_classes, self.error, float(self.q))
