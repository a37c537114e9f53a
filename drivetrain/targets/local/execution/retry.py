"""Retry policies: how long to wait before the next attempt, or that there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from drivetrain.targets.sagemaker.document.document import Retry


class Retries:
    """The retries of one step in one execution. Every policy counts its own attempts, as the service does.

    A policy applies when it lists the word for what went wrong; a program's own failure has no word here, since the
    service retries no such failure by these policies either.
    """

    def __init__(self, policies: Sequence[Retry], clock: Callable[[], float] = time.monotonic) -> None:
        self._policies = policies
        self._used = [0] * len(policies)
        self._clock = clock
        self._started = clock()

    def wait_s(self, error_type: str | None) -> float | None:
        """Seconds until the next attempt after this error; None when the step has failed for good."""
        for index, policy in enumerate(self._policies):
            if error_type is None or error_type not in policy.exceptions:
                continue
            if policy.max_attempts is not None and self._used[index] >= policy.max_attempts:
                return None
            wait = policy.interval_seconds * policy.backoff_rate ** self._used[index]
            if (
                policy.expire_after_seconds is not None
                and self._clock() - self._started + wait > policy.expire_after_seconds
            ):
                return None
            self._used[index] += 1
            return wait
        return None
