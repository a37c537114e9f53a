"""How many jobs are at work at a time, over all steps of an execution."""

from __future__ import annotations

import threading


class Slots:
    """The jobs that may be at work at a time. Each running step has one slot; a step of many jobs (a tuning) takes
    more while some are free, and never waits for one. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._guard = threading.Lock()

    def take(self) -> bool:
        """Take a slot, if one is free."""
        with self._guard:
            if self._free < 1:
                return False
            self._free -= 1
            return True

    def give(self) -> None:
        """A job has ended: its slot is free again. Whoever gives one beside a step's own wakes the execution's loop
        with an event, so that a step which waits for it can start."""
        with self._guard:
            self._free += 1
