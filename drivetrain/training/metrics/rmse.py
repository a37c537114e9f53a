"""Root mean squared error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from drivetrain.training.metric_states.numbers.sums import root
from drivetrain.training.metric_states.output_errors import OutputError
from drivetrain.training.metrics._by_output import ByOutput


@dataclass(frozen=True)
class Metric(ByOutput):
    """The root of the mean of (target - output)^2, of each output (scikit-learn's root_mean_squared_error)."""

    error: ClassVar[OutputError] = "squared"
    row_scale = "root"
    scale = np.square, lambda mean: math.sqrt(max(mean, 0.0))

    def of_mean(self, mean: Fraction) -> float:
        return root(mean)
