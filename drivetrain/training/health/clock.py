"""Measure the phases of a step on this rank: each phase ends with a mark, at the cost of reading the clock."""

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

    A step marks it five times, and each call costs it microseconds: the model has taken the caches. So marks are only
    noted, and added up when `seconds` is called. A caller that marks the same phase in every step gets the function
    that notes it once (`noting(phase)`), mostly a list's own `append`: `note((phase, now()))` is then a `mark` without
    another call.

    Attributes:
        now: the time [s].
        queued: of the seconds of data and forward, those in which the thread was ready and waited for a CPU.
        last: when the last mark was set that has been added up.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self._noted: list[tuple[int, float]] = []
        self._queue = _opened_queue()
        self._reads = [False] * len(PHASES)
        self.restart()

    def restart(self) -> None:
        """Count from here on."""
        self._noted.clear()
        self._seconds, self.queued = [0.0] * len(PHASES), 0.0
        self.last, self._queued_before = self.now(), self.in_queue()

    @property
    def seconds(self) -> list[float]:
        """Seconds of each phase since `restart`."""
        seconds, last = self._seconds, self.last
        for phase, at in self._noted:
            if at > last:
                seconds[phase] += at - last
                last = at
        self._noted.clear()
        self.last = last
        return seconds

    @property
    def own(self) -> float:
        """Seconds of data and forward in which the thread had a CPU, or slept."""
        seconds = self.seconds
        return seconds[DATA] + seconds[FORWARD] - self.queued

    def leave_out_the_queue(self, *, meets_before_forward: bool = True, in_pieces: bool = True) -> None:
        """From now on `own` is without the time that this thread is ready and waits for a CPU, as Linux counts it
        (https://docs.kernel.org/scheduler/sched-stats.html). On a host that is busy otherwise it is far more than ranks
        differ by, and in each step another rank's. It takes one and a half microseconds a mark, so only marks at which
        data and forward may begin or end read it.

        Args:
            meets_before_forward: a mark separates the two: `data` ends with one, and `forward` begins with one.
            in_pieces: another forward may follow a backward.
        """
        if self._queue < 0:
            return
        unread = {*_NEVER_BEFORE, *(() if meets_before_forward else (DATA,)), *(() if in_pieces else (BACKWARD,))}
        self._reads = [phase not in unread for phase in range(len(PHASES))]
        self._queued_before = self.in_queue()

    def noting(self, phase: int) -> Callable[[tuple[int, float]], None]:
        """The function that records when this phase ended; the same one until `leave_out_the_queue`."""
        return self._note_without_the_queue if self._reads[phase] else self._noted.append

    def mark(self, phase: int) -> None:
        self.noting(phase)((phase, self.now()))

    def split(self, phase: int, at: float, then: int) -> None:
        """The same as two marks, the first one set at `at`."""
        self._noted.append((phase, min(at, self.now())))
        self.mark(then)

    def in_queue(self) -> float:
        """Seconds in which the thread was ready and waited for a CPU, since it began; 0 where the kernel does not count
        them."""
        return int(os.pread(self._queue, 100, 0).split()[1]) * 1e-9 if self._queue >= 0 else 0.0

    def close(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)
            self._queue, self._reads = -1, [False] * len(PHASES)

    def _note_without_the_queue(self, noted: tuple[int, float]) -> None:
        phase, now = noted
        # Both of the same moment: who waits for a CPU between two looks would have the wait in one phase, and its time
        # in the next.
        queued = 0.0
        for _ in range(_TRIES):
            before, queued, now = now, self.in_queue(), self.now()
            if now - before < _MOMENT:
                break
        if phase in _OWN:
            self.queued += queued - self._queued_before
        self._queued_before = queued
        self._noted.append((phase, now))


def _opened_queue() -> int:
    """Open Linux's counters of this thread; -1 if the kernel has none."""
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return -1
