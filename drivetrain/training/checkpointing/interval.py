"""How often to save: often enough that an interruption costs little, seldom enough that saving does.

J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17 (9), 1974;
J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
Systems 22 (3), 2006. All times are in seconds; nothing here asks a clock.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from drivetrain.base.errors import InputError

# What was said counts little beside what was seen. Where it is wrong by a factor of 48, and a save takes 7 s, goodput
# is 0.97 of that at the best interval, against 0.94 with a weight of 1; where it is right, under a hundredth is lost
# (simulated: tests/benchmarks/goodput.py).
PRIOR_WEIGHT = 0.2
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
ALLOWED = 'auto, epoch, or a number of steps or a time such as "200steps", "90s", "10m", "2h"'


@dataclass(frozen=True)
class Every:
    """The parsed `checkpoint_every`: one field is set, or none for `auto`."""

    steps: int = 0
    seconds: float = 0.0
    epoch: bool = False

    @property
    def is_auto(self) -> bool:
        return self == Every()


def parse_every(text: str) -> Every:
    """
    Raises:
        InputError: neither auto, epoch, a number of steps nor a time.
    """
    if text in ("auto", "epoch"):
        return Every(epoch=text == "epoch")
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) ?(steps?|s|m|h)", text.strip(), re.ASCII)
    number = float(match[1]) if match else 0.0
    if match and number > 0:
        if match[2] in SECONDS:
            return Every(seconds=number * SECONDS[match[2]])
        if number.is_integer():
            return Every(steps=int(number))
    raise InputError(f"checkpoint_every={text!r}; allowed are {ALLOWED}.")


def young(cost: float, mtbf: float) -> float:
    """The first-order optimum of the time between two saves.

    Args:
        cost: training time that a save takes away.
        mtbf: mean time between interruptions.
    """
    return math.sqrt(2 * cost * mtbf)


def daly(cost: float, mtbf: float) -> float:
    """The higher-order optimum of the time between the end of a save and the start of the next (Daly's equation 37):
    what `young` gives for short saves, and never above `mtbf`, where a save takes nearly as long as there is time."""
    if cost >= 2 * mtbf:
        return mtbf
    share = cost / (2 * mtbf)
    return young(cost, mtbf) * (1 + math.sqrt(share) / 3 + share / 9) - cost


def best_interval(cost: float, mtbf: float, *, step_seconds: float = 0.0, durable_seconds: float = 0.0) -> float:
    """The time from the start of a save to the start of the next: Daly's, but at least a step, and so long that a save
    is over before the next begins.

    Args:
        durable_seconds: from the start of a save until it is durable, which is longer than its cost where a thread
            writes while training goes on.
    """
    return max(daly(cost, mtbf) + cost, step_seconds, durable_seconds)


def mean_time_between(prior: float, seconds: float, interruptions: int) -> float:
    """Estimate the mean time between interruptions after `interruptions` of them in `seconds`.

    Interruptions come as a Poisson process; the belief in their rate is a gamma distribution that weighs as much as
    PRIOR_WEIGHT interruptions seen in as many times `prior` seconds. This is the inverse of the mean rate.
    """
    return (PRIOR_WEIGHT * prior + seconds) / (PRIOR_WEIGHT + interruptions)


class SaveCost:
    """The cost of a save: the stall, and the steps that are slower while it is being written.

    A median of the last few: one save that met a busy disk is no reason to save seldom. Nor is the first one of a
    process, which also plans who writes what and makes room in memory: it counts as long as there is no other.
    """

    KEPT = 5

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._durable: list[float] = []
        self._is_first = False

    @property
    def is_known(self) -> bool:
        return bool(self._costs)

    def add(self, stall: float, durable: float, *, slowdown: float = 0.0, is_first: bool = False) -> None:
        """Take note of a save.

        Args:
            is_first: it was the first one of a process.
            stall: time in which no step was taken.
            durable: time from its start until it was durable.
            slowdown: what the steps meanwhile took longer than steps otherwise do; noise may make it negative.
        """
        if is_first and self.is_known:
            return
        if self._is_first:
            self._costs, self._durable = [], []
        self._is_first = is_first
        self._costs = [*self._costs, stall + max(0.0, slowdown)][-self.KEPT :]
        self._durable = [*self._durable, durable][-self.KEPT :]

    @property
    def seconds(self) -> float:
        return _median(self._costs)

    @property
    def durable_seconds(self) -> float:
        return _median(self._durable)


def _median(values: list[float]) -> float:
    """The median; for an even count the upper of the two middle values, to overestimate the cost rather than
    underestimate it."""
    return sorted(values)[len(values) // 2] if values else 0.0
