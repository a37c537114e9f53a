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

    A step marks it five times, so it only ever adds up: what a step took is the difference of two looks.

    Attributes:
        seconds: of each phase, since `restart`.
        queued: of those of data and forward, the seconds in which the thread was ready and waited for a CPU.
        last: when the last mark was set.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._queue = -1  # open file
        self._reads = [False] * len(PHASES)
        self.restart()

    def restart(self) -> None:
        """Count from here on."""
        self.seconds, self.queued = [0.0] * len(PHASES), 0.0
        self.last, self._queued_before = self._now_and_queued()

    @property
    def own(self) -> float:
        """Seconds of data and forward in which the thread had a CPU, or slept."""
        return self.seconds[DATA] + self.seconds[FORWARD] - self.queued

    def leave_out_the_queue(self, *, meets_before_forward: bool = True, in_pieces: bool = True) -> None:
        """From now on `own` is without the time that this thread is ready and waits for a CPU, as Linux counts it
        (https://docs.kernel.org/scheduler/sched-stats.html). On a host that is busy otherwise it is far more than ranks
        differ by, and in each step another rank's. It takes one and a half microseconds a mark, so only marks at which
        data and forward may begin or end read it.

        Args:
            meets_before_forward: a mark separates the two: `data` ends with one, and `forward` begins with one.
            in_pieces: another forward may follow a backward.
        """
        try:
            self._queue = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            return  # a kernel that does not count it
        unread = {*_NEVER_BEFORE, *(() if meets_before_forward else (DATA,)), *(() if in_pieces else (BACKWARD,))}
        self._reads = [phase not in unread for phase in range(len(PHASES))]
        self._queued_before = self._in_queue()

    def mark(self, phase: int) -> None:
        if self._reads[phase]:
            now, queued = self._now_and_queued()
            if phase in _OWN:
                self.queued += queued - self._queued_before
            self._queued_before = queued
        else:
            now = self._now()
        self.seconds[phase] += now - self.last
        self.last = now

    def split(self, phase: int, at: float, then: int) -> None:
        """As two marks, of which the first was set at `at`."""
        at = min(max(at, self.last), self._now())
        self.seconds[phase] += at - self.last
        self.last = at
        self.mark(then)

    def close(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)
            self._queue, self._reads = -1, [False] * len(PHASES)

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
