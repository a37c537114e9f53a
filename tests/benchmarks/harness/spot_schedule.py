"""A training on machines that are taken away at random, simulated: when it saves, what it loses, how far it comes.

The clock is the machines': time without machines costs every policy the same. A save keeps the training from stepping
for a while and counts once it is durable; an interruption, which comes without notice, throws away what was done since
the start of the last save that counts, and may come in the middle of a restart, too. Time starts with the first step.
"""

from __future__ import annotations

import bisect
import math
import random
from dataclasses import dataclass

from drivetrain.training.checkpointing.interval import parse_every
from drivetrain.training.loop.cadence import FIRST_SECONDS, Cadence


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds: in which a save keeps the training from stepping, until it is durable, from a restart to its first
    step."""

    save: float
    durable: float
    restart: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`seconds` until all `work` was done."""

    work: float
    seconds: float
    interruptions: int

    @property
    def goodput(self) -> float:
        return self.work / self.seconds


class Schedule:
    """Moments at which the machines are taken away: a Poisson process, drawn as far as it is asked for."""

    def __init__(self, mean_seconds: float, seed: int) -> None:
        self._mean, self._draws = mean_seconds, random.Random(seed)
        self._moments = [self._draws.expovariate(1 / mean_seconds)]

    def after(self, moment: float) -> float:
        """The first one after a moment."""
        while self._moments[-1] <= moment:
            self._moments.append(self._moments[-1] + self._draws.expovariate(1 / self._mean))
        return self._moments[bisect.bisect_right(self._moments, moment)]


def with_interval(interval: float, work: float, costs: Costs, schedule: Schedule) -> Outcome:
    """A training that saves every `interval` seconds, from the start of a save to that of the next, or as soon as the
    one before is durable: by counting."""
    period = max(interval, costs.durable, math.nextafter(costs.save, math.inf))
    now = kept = 0.0
    interruptions = 0
    while True:
        ends = schedule.after(now)
        first = now + (costs.restart if interruptions else 0.0)
        left = work - kept
        # A stretch before the first save, and then a save at the start of each.
        saves = math.ceil((left - interval) / (period - costs.save)) if left > interval else 0
        finish = first + left + saves * costs.save
        if finish <= ends:
            return Outcome(work=work, seconds=finish, interruptions=interruptions)
        durable = max(math.floor((ends - first - costs.durable - interval) / period) + 1, 0)
        kept += interval + (durable - 1) * (period - costs.save) if durable else 0.0
        now, interruptions = ends, interruptions + 1


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def with_cadence(every: str, work: float, costs: Costs, schedule: Schedule, *, mtbf_seconds: float) -> Outcome:
    """A training with `checkpoint_every=EVERY` and that `mtbf_hours`: it saves when the class says so that every
    training asks, and a restart knows of the earlier starts what theirs knows."""
    clock = _Clock()
    kept = 0.0
    interruptions, measured = 0, None
    while True:
        began, ends = clock.now, schedule.after(clock.now)
        clock.now += costs.restart if interruptions else 0.0
        last = clock.now
        cadence = Cadence(
            parse_every(every),
            mtbf_seconds=mtbf_seconds,
            seen=(began, interruptions),
            measured=measured,
            clock=clock,
        )
        done = kept
        writing: tuple[float, float] | None = None  # when it is durable, and how much work it holds
        while clock.now < ends:
            save_at = writing[0] if writing else _due(cadence, clock, last)
            moment = min(save_at, clock.now + work - done, ends)
            done, clock.now = done + moment - clock.now, moment
            if done >= work * (1 - 1e-12):
                return Outcome(work=work, seconds=clock.now, interruptions=interruptions)
            if writing and moment == writing[0]:
                kept, writing = writing[1], None
                measured = (costs.save, costs.durable)
                cadence.saved(*measured)
            elif not writing and moment == save_at and moment < ends:
                writing, last = (moment + max(costs.durable, costs.save), done), moment
                cadence.begins()
                clock.now += costs.save
        clock.now, interruptions = ends, interruptions + 1


def _due(cadence: Cadence, clock: _Clock, last: float) -> float:
    """When the next save is due. While it waits the estimate of the mean time grows, and the interval with it."""
    here = clock.now
    while not cadence.is_due():
        waits = cadence.every.seconds or (cadence.interval if cadence.cost.is_known else FIRST_SECONDS)
        clock.now = max(last + waits, math.nextafter(clock.now, math.inf))
    due, clock.now = clock.now, here
    return due
