"""When a checkpoint is due.

Every rank counts steps and epoch ends by itself. Only rank 0 looks at the clock, at what a save costs and at how often
machines are taken away; the other ranks learn of its decision through loop/agreement.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from drivetrain.training.checkpointing.interval import Every, SaveCost, best_interval, mean_time_between

# The cost of a save is unknown until one has been measured, so the first one comes early.
FIRST_SECONDS = 30.0
# An epoch's end is a good place for a checkpoint, where it costs no more than this share of the time since the last.
CHEAP_SHARE = 0.01


class Cadence:
    """Applies `checkpoint_every` while the training runs.

    Args:
        every: as it was given.
        mtbf_seconds: the user's estimate of the mean time between interruptions.
        seen: seconds that earlier attempts ran, and how many of them were interrupted.
        step_seconds: a save that they measured: its stall and the time until it was durable; None without one.
    """

    def __init__(
        self,
        every: Every,
        *,
        mtbf_seconds: float,
        seen: tuple[float, int] = (0.0, 0),
        measured: tuple[float, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every, self._clock = every, clock
        self._prior, (self._seen, self._interruptions) = mtbf_seconds, seen
        self.cost = SaveCost()
        if measured:
            self.cost.add(*measured)
        self._has_saved = False
        self._begun = self._last = clock()
        # Steps and their time, apart for those that were taken while a checkpoint was being written.
        self._steps, self._seconds = {False: 0, True: 0}, {False: 0.0, True: 0.0}
        self._marked: tuple[int, float] | None = None

    def falls_on(self, step: int, *, ends_epoch: bool) -> bool:
        """Return True if every rank knows by itself that a checkpoint belongs here."""
        return (ends_epoch and self.every.epoch) or (self.every.steps > 0 and step % self.every.steps == 0)

    def is_due(self, *, ends_epoch: bool = False) -> bool:
        """Return True if a checkpoint is due; asked on the first rank."""
        since = self._clock() - self._last
        if self.every.seconds:
            return since >= self.every.seconds
        if not self.every.is_auto:
            return False
        if not self.cost.is_known:
            return ends_epoch or since >= FIRST_SECONDS
        if since >= self.interval:
            return True
        return ends_epoch and self.cost.seconds <= CHEAP_SHARE * since and since >= self.cost.durable_seconds

    @property
    def mtbf_seconds(self) -> float:
        """Mean time between interruptions: the user's estimate, corrected by what was observed."""
        return mean_time_between(self._prior, self._seen + self._clock() - self._begun, self._interruptions)

    @property
    def interval(self) -> float:
        """The best time between two saves, by what is known now."""
        return best_interval(
            self.cost.seconds,
            self.mtbf_seconds,
            step_seconds=self._per_step(False),
            durable_seconds=self.cost.durable_seconds,
        )

    def reached(self, step: int, *, is_writing: bool) -> None:
        """Steps up to `step` were taken, nothing but steps since `restart` or the last call."""
        now = self._clock()
        if self._marked is not None:
            marked, at = self._marked
            self._steps[is_writing] += step - marked
            self._seconds[is_writing] += now - at
        self._marked = (step, now)

    def restart(self) -> None:
        """The time since the last call was not spent on steps."""
        self._marked = None

    def begins(self) -> None:
        """A save begins."""
        self._last = self._clock()
        self._steps[True], self._seconds[True] = 0, 0.0
        self.restart()

    def saved(self, stall: float, durable: float) -> None:
        """A save is durable; it stalled the training for `stall` seconds, and was written in `durable`."""
        slowdown = 0.0
        if self._steps[True] and self._steps[False]:
            slowdown = self._seconds[True] - self._steps[True] * self._per_step(False)
        self.cost.add(stall, durable, slowdown=min(slowdown, durable), is_first=not self._has_saved)
        self._has_saved = True

    def _per_step(self, is_writing: bool) -> float:
        return self._seconds[is_writing] / self._steps[is_writing] if self._steps[is_writing] else 0.0
