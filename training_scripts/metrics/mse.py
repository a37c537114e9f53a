"""Mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training_scripts.counting.output_errors import OutputError
from drivetrain.training_scripts.metrics._by_output import ByOutput


@dataclass(frozen=True)
class Metric(ByOutput):
    """The mean of (target - output)^2 (scikit-learn's mean_squared_error)."""

    error: ClassVar[OutputError] = "squared"
