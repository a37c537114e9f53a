"""The course of a training job over all its starts: how long it may take, and its SecondaryStatusTransitions.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html
On an interruption the service goes from Interrupted to Starting, Downloading and Training again, in the same job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.json_text import object_in

MESSAGES = {
    "Starting": "Preparing the hosts",
    "Downloading": "Downloading input data and checkpoints",
    "Training": "Training in progress",
    "Uploading": "Uploading the training's outputs",
    "Completed": "Training job completed",
}


class Transitions:
    """The statuses that a job has gone through; each ends when the next one begins."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._all: list[dict[str, Any]] = []

    def enter(self, status: str, message: str | None = None) -> None:
        """From now on the job is in this status."""
        now = self._clock()
        if self._all:
            self._all[-1]["EndTime"] = now
        self._all.append({"Status": status, "StartTime": now, "StatusMessage": message or MESSAGES[status]})

    def finished(self) -> list[dict[str, Any]]:
        """All of them, once the job has completed."""
        self.enter("Completed")
        self._all[-1]["EndTime"] = self._all[-1]["StartTime"]
        return self._all

    def began(self, status: str) -> float:
        """When the job first was in a status, in seconds since the epoch."""
        return next(one["StartTime"] for one in self._all if one["Status"] == status)


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
