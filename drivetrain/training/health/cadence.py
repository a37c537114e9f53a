"""On which steps what is recorded, so that all of it costs no more than a share of the training's time.

Every rank comes to the same steps: what is decided on are sums over all ranks, and a number of steps.
"""

from __future__ import annotations

import math

# Ranks and losses are recorded about so often [s]: it takes a message of a few bytes. Where ranks work little of that
# time, and wait for data, it would still cost more than half of the bound; then less often, but not less than this.
PACE_SECONDS, SLOWEST_PACE_SECONDS = 0.25, 1.0
# These are recorded with their tensors whatever it costs: how a training begins is the most telling. What they cost
# more than the bound is made up for by the steps that follow.
FIRST_STEPS = (1, 2, 4, 8)


class Cadence:
    """
    Args:
        bound: the highest cost, as a share of the time in which ranks work; from 1 on every step is recorded with its
            tensors.
        first: steps that are behind us when it begins.
    """

    def __init__(self, bound: float, first: int = 0) -> None:
        self._bound, self._first = bound, first
        self._spent = self._worked = self._cost = self._small_cost = 0.0
        self._next_full, self._next = first, first + 1
        self._gap = 1
        self.due = first + 1
        """Nothing is recorded before this step: most steps ask no more than that."""

    @property
    def share(self) -> float:
        """What it has cost so far, as a share of the time."""
        return self._spent / self._worked if self._worked else 0.0

    def sums_tensors(self, step: int) -> bool:
        """Whether the tensors of this step are summed up."""
        return self._bound >= 1 or step - self._first in FIRST_STEPS or step == self._next_full

    def records(self, step: int) -> bool:
        """Whether anything is recorded of this step."""
        return step >= self._next or self.sums_tensors(step)

    def recorded(
        self, step: int, now: int, *, steps: float, seconds: float, worked: float, cost: float, full: bool
    ) -> None:
        """A record of `step` has come together, `now` steps being behind us. Numbers are means over the ranks, since
        the record before.

        Args:
            steps: how many were taken.
            seconds: that they took, without validations and checkpoints.
            worked: of these, without waiting for data: what waits has no time to give away.
            cost: seconds that recording took.
            full: whether tensors were summed up.
        """
        a_step, of_work = max(seconds / steps, 1e-9), max(worked / steps, 1e-9)
        self._spent, self._worked = self._spent + cost, self._worked + worked
        if full:  # the first ones allocate, and cost more than those that follow
            self._cost = cost if self._cost == 0 else (cost + self._cost) / 2
        else:
            self._small_cost = cost if self._small_cost == 0 else (cost + self._small_cost) / 2
        affordable = 2 * self._small_cost / (self._bound * of_work)
        gap = min(max(PACE_SECONDS / a_step, affordable), SLOWEST_PACE_SECONDS / a_step)
        self._gap = max(1, min(2 * self._gap, round(gap)))
        self._next = now + self._gap
        if full or self._next_full > now + 1:
            debt = self._spent + self._cost - self._bound * self._worked
            self._next_full = max(now + 1, step + math.ceil(debt / (self._bound * of_work)))
        first = (self._first + number for number in FIRST_STEPS)
        coming = [each for each in (*first, self._next_full) if each > now]
        self.due = now + 1 if self._bound >= 1 else min(self._next, *coming)
