"""Where the time of a step goes on this rank: each phase ends with a mark, at the cost of reading the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from drivetrain.training.health.record import PHASES

DATA, COMMUNICATION, FORWARD, BACKWARD, OPTIMIZER, COMPUTE, VALIDATION, SAVE, OTHER = range(len(PHASES))


class Clock:
    """`mark(phase)`: what has passed since the last mark belongs to that phase.

    Attributes:
        step: seconds of each phase in the present step.
        last: when the last mark was set.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self.step = [0.0] * len(PHASES)
        self.last = now()

    def mark(self, phase: int) -> None:
        now = self._now()
        self.step[phase] += now - self.last
        self.last = now

    def split(self, phase: int, at: float, then: int) -> None:
        """As two marks, of which the first was set at `at`."""
        at = min(max(at, self.last), self._now())
        self.step[phase] += at - self.last
        self.last = at
        self.mark(then)

    def taken(self) -> list[float]:
        """The seconds of the step's phases; what comes now is of the next one."""
        step, self.step = self.step, [0.0] * len(PHASES)
        return step
