"""Where the time of a step goes on this rank: each phase ends with a mark, at the cost of reading the clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from drivetrain.training.health.record import PHASES

DATA, COMMUNICATION, FORWARD, BACKWARD, OPTIMIZER, COMPUTE, VALIDATION, SAVE, OTHER = range(len(PHASES))
# What a rank does before it meets the others, and phases that it is never right after.
_OWN, _NEVER_BEFORE = (DATA, FORWARD), (OPTIMIZER, COMPUTE)
# A thread that waits for a CPU waits longer [s] than it takes to ask how long it has waited.
_MOMENT, _TRIES = 5e-5, 4


class Clock:
    """`mark(phase)`: what has passed since the last mark belongs to that phase.

    Attributes:
        step: seconds of each phase in the present step.
        own: of these, the seconds of data and forward in which the thread had a CPU, or slept.
        queued: the other seconds of data and forward, in which it was ready and waited for a CPU.
        last: when the last mark was set.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._queue = -1  # open file
        self.step = [0.0] * len(PHASES)
        self.own = self.queued = 0.0
        self.last = now()
        self._queued_before = 0.0

    def leave_out_the_queue(self) -> None:
        """From now on `own` is without the time that this thread is ready and waits for a CPU, as Linux counts it
        (https://docs.kernel.org/scheduler/sched-stats.html). On a host that is busy otherwise it is far more than ranks
        differ by, and in each step another rank's. It takes one and a half microseconds a mark."""
        try:
            self._queue = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            return  # a kernel that does not count it
        self._queued_before = self._in_queue()

    def mark(self, phase: int) -> None:
        if phase in _NEVER_BEFORE:
            now, queued = self._now(), self._queued_before
        else:
            now, queued = self._now_and_queued()
        passed = now - self.last
        self.step[phase] += passed
        if phase in _OWN:
            waited = queued - self._queued_before
            self.own, self.queued = self.own + passed - waited, self.queued + waited
        self.last, self._queued_before = now, queued

    def split(self, phase: int, at: float, then: int) -> None:
        """As two marks, of which the first was set at `at`."""
        at = min(max(at, self.last), self._now())
        self.step[phase] += at - self.last
        self.last = at
        self.mark(then)

    def taken(self) -> list[float]:
        """The seconds of the step's phases; what comes now is of the next one."""
        step, self.step = self.step, [0.0] * len(PHASES)
        self.own = self.queued = 0.0
        return step

    def close(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1

    def _now_and_queued(self) -> tuple[float, float]:
        """Of the same moment: who waits for a CPU between two looks would have the wait in one phase, and its time in
        the next."""
        now, queued = self._now(), 0.0
        if self._queue < 0:
            return now, queued
        for _ in range(_TRIES):
            before, queued, now = now, self._in_queue(), self._now()
            if now - before < _MOMENT:
                break
        return now, queued

    def _in_queue(self) -> float:
        """Seconds, since the thread began."""
        return int(os.pread(self._queue, 100, 0).split()[1]) * 1e-9
