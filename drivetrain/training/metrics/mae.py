"""Mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric_states.output_errors import OutputError
from drivetrain.training.metrics._by_output import ByOutput


@dataclass(frozen=True)
class Metric(ByOutput):
    """The mean of |target - output| (scikit-learn's mean_absolute_error)."""

    error: ClassVar[OutputError] = "absolute"
