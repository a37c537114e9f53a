"""The course of a training job as DescribeTrainingJob tells it in SecondaryStatusTransitions.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html. On an interruption the
service goes from Interrupted to Starting, Downloading and Training again, in the same job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
