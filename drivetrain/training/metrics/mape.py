"""Mean absolute percentage error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric_states.output_errors import OutputError
from drivetrain.training.metrics._by_output import ByOutput


@dataclass(frozen=True)
class Metric(ByOutput):
    """The mean of |target - output| / |target| (scikit-learn's mean_absolute_percentage_error): 1 is 100 %.

    As there, a target nearer to 0 than 2.2e-16 is taken for that, which makes the error of its sample huge.
    """

    error: ClassVar[OutputError] = "relative"
