"""Choose the steps to record, and what of them, so that all of it costs no more than a share of the training's time.

Every rank comes to the same steps: what is decided on are sums over all ranks, and a number of steps.
"""

from __future__ import annotations

import math

# Ranks and losses are recorded about so often [s]: it takes a message of a few bytes. Where ranks work little of that
# time, and wait for data, it would still cost more than half of the bound; then less often, but not less than this.
PACE_SECONDS, SLOWEST_PACE_SECONDS = 0.25, 1.0
# They get rarer as a training gets older: its age divided by this is the pace, from one minute up to four. Records of
# three steps at most tell a slow rank within 20 steps, so those stay as they are.
_AGE_OF_PACE, _FEW_STEPS = 240, 3
# Of the bound, what may be spent on records and on what each step takes (marks of its phases, the flight recorder); the
# rest is for what is not measured, as caches that are cold afterwards. Where steps are so short that little of it is
# left, records still get half.
SPENT, LEAST_OF_RECORDS = 0.85, 0.5
# Tensors are not summed up more often than this [s], though the bound would allow it: steps of a millisecond would pay
# all of the bound for what nobody needs.
TENSORS_SECONDS = 0.5
# They get rarer in the same way, from one minute up to ten.
SLOWEST_TENSORS_SECONDS, _AGE_OF_TENSORS = 5.0, 120
# These are recorded with their tensors whatever it costs: how a training begins is the most telling, and no rule wants
# more records than these. What they cost more than the bound is made up for by the steps that follow.
FIRST_STEPS = (1, 2, 4, 8, 16)


class Cadence:
    """
    Args:
        bound: the highest cost, as a share of the time in which ranks work; from 1 on every step is recorded with its
            tensors.
        first: steps that are behind us when it begins.
    """

    def __init__(self, bound: float, first: int = 0) -> None:
        self._bound, self._first = bound, first
        self._age = self._spent = self._worked = self._cost = self._small_cost = 0.0
        self._budget = 0.0  # seconds that records may still take
        self._begun, self._next_full, self._next = first, first + FIRST_STEPS[0], first + 1
        self._gap = 1
        self.due: float = first + 1
        """Nothing is recorded before this step: most steps ask no more than that."""

    @property
    def share(self) -> float:
        """The cost so far, as a share of the time."""
        return self._spent / self._worked if self._worked else 0.0

    def sums_tensors(self, step: int) -> bool:
        """Return True if the tensors of this step are summed up."""
        return self._bound >= 1 or step >= self._next_full

    def begins(self, step: int, *, full: bool) -> None:
        """The step is recorded; `full` with its tensors. After the first steps they are not due again until its record
        has come."""
        if full:
            self._begun = step
            self._next_full = self._next_of_first()

    def records(self, step: int) -> bool:
        """Return True if this step is recorded."""
        return step >= self._next or self.sums_tensors(step)

    def recorded(
        self,
        step: int,
        now: int,
        *,
        steps: float,
        seconds: float,
        worked: float,
        cost: float,
        idle: float = 0.0,
        full: bool,
    ) -> None:
        """A record of `step` has come together, `now` steps being behind us. Numbers are means over the ranks, since
        the record before.

        Args:
            steps: how many were taken.
            seconds: that they took, without validations and checkpoints.
            worked: of these, without waiting for data: what waits has no time to give away.
            cost: seconds that recording took.
            idle: seconds that watching takes of each step, recorded or not.
            full: whether tensors were summed up.
        """
        a_step, of_work = max(seconds / steps, 1e-9), max(worked / steps, 1e-9)
        self._age, self._worked = self._age + seconds, self._worked + worked
        self._spent += cost + idle * steps
        of_records = max(SPENT * self._bound * of_work - idle, LEAST_OF_RECORDS * self._bound * of_work)
        self._budget += of_records * steps - cost
        if full:  # the first ones allocate, and cost more than those that follow
            self._cost = cost if self._cost == 0 else (cost + self._cost) / 2
        else:
            self._small_cost = cost if self._small_cost == 0 else (cost + self._small_cost) / 2
        affordable = 2 * self._small_cost / (self._bound * of_work)
        pace = max(PACE_SECONDS, self._age / _AGE_OF_PACE if _FEW_STEPS * a_step < PACE_SECONDS else 0.0)
        gap = min(max(pace / a_step, affordable), SLOWEST_PACE_SECONDS / a_step)
        self._gap = max(1, min(2 * self._gap, round(gap)))
        self._next = now + self._gap
        if full or now + 1 < self._next_full < math.inf:
            paid = step + math.ceil((self._cost - self._budget) / of_records)
            apart = min(max(TENSORS_SECONDS, self._age / _AGE_OF_TENSORS), SLOWEST_TENSORS_SECONDS)
            planned = max(now + 1, paid, self._begun + round(apart / a_step))
            self._next_full = min(planned, self._next_of_first())
        self.due = now + 1 if self._bound >= 1 else min(self._next, self._next_full)

    def _next_of_first(self) -> float:
        """The first of FIRST_STEPS for which no tensors have been summed up. It is made up for where the step before
        was still on its way."""
        return min((self._first + step for step in FIRST_STEPS if self._first + step > self._begun), default=math.inf)
