"""How long a training job may take: StoppingCondition, over all its starts.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.json_text import object_in


@dataclass(frozen=True)
class Limit:
    """`left_s` of the `total_s` that `field` allows."""

    field: str
    total_s: float
    left_s: float

    @property
    def exceeded(self) -> str:
        return f"exceeded its time limit of {self.total_s:g} s (StoppingCondition.{self.field})"

    @property
    def secondary_status(self) -> str:
        """DescribeTrainingJob's SecondaryStatus of a job that was stopped at it."""
        return f"{self.field.removesuffix('InSeconds')}Exceeded"


def limit(arguments: Mapping[str, Any], *, worked_s: float, elapsed_s: float) -> Limit | None:
    """The limit that ends the job first: MaxRuntimeInSeconds counts the time at work, MaxWaitTimeInSeconds the time
    without machines, too. None where the definition sets neither."""
    given = object_in(arguments, "StoppingCondition")
    spent = (("MaxRuntimeInSeconds", worked_s), ("MaxWaitTimeInSeconds", elapsed_s))
    limits = [
        Limit(field, float(given[field]), float(given[field]) - seconds)
        for field, seconds in spent
        if given.get(field) is not None
    ]
    return min(limits, key=lambda one: one.left_s, default=None)
