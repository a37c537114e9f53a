"""What interruptions cost a training: where its time went, what was possible, and what spot machines save.

Goodput is useful time over all time. All time counts from the first step to the end: what comes before the first step a
training needs without interruptions, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# What the phases of a job mean here; all others are the way to the next start.
_PHASES = {"Training": "training", "Uploading": "training", "Interrupted": "down"}


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of a training. What its program did not tell is None; moments are seconds since the epoch.

    `time` is its last sign of life, `first_step` the step that it went on from (0 at the very beginning), `step` the
    last one that it took. `stall_seconds` are those in which its `saves` stopped it, all together; `restart_seconds` go
    from the start to the first step. `saved` are saves: (step, moment).
    """

    number: int
    started: float
    time: float
    first_step: int | None = None
    step: int | None = None
    saves: int = 0
    stall_seconds: float = 0.0
    restart_seconds: float = 0.0
    saved: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """One time that a training's machines were taken away. What is not known is None."""

    at_step: int | None = None
    resumed_step: int | None = None
    steps_lost: int | None = None
    notice_seconds: float | None = None
    seconds_down: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a job as DescribeTrainingJob tells of it (SecondaryStatusTransitions)."""

    status: str
    started: float
    ended: float
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class JobTimes:
    """The times of one training job: its attempts, what interrupted it, and what is paid for.

    `training_seconds` and `billable_seconds` are DescribeTrainingJob's TrainingTimeInSeconds and BillableTimeInSeconds,
    `hosts` is by how many machines both are multiplied on the bill. Nobody bills a run on this machine (`billed`): its
    billable seconds are those in which it had machines.
    """

    step: str
    spot: bool = False
    billed: bool = False
    hosts: int = 1
    training_seconds: float | None = None
    billable_seconds: float | None = None
    attempts: tuple[Attempt, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    phases: tuple[Phase, ...] = ()

    @property
    def machine_seconds(self) -> float | None:
        """What one machine would cost at the full price."""
        return self.training_seconds if self.billed else self.billable_seconds

    @property
    def steps_lost(self) -> int | None:
        """All steps that were taken again; None where that of one interruption is not known."""
        lost = [one.steps_lost for one in self.interruptions]
        return None if None in lost else sum(one for one in lost if one is not None)


@dataclass(frozen=True, kw_only=True)
class Account:
    """Where the seconds of a training went, from its first step to its end."""

    useful: float
    """Steps that count in the end."""
    saving: float
    """The training stood still while its state was copied."""
    lost: float
    """Steps that were taken again."""
    restarting: float
    """Leaving after an interruption, and coming back to the next step: imports, data, the checkpoint."""
    down: float
    """No machines."""
    saves: int
    interruptions: int

    @property
    def total(self) -> float:
        return self.useful + self.saving + self.lost + self.restarting + self.down

    @property
    def wasted(self) -> float:
        return self.total - self.useful

    @property
    def goodput(self) -> float:
        return self.useful / self.total if self.total > 0 else 1.0

    @property
    def save_cost(self) -> float | None:
        """Seconds that one save stops the training for; None where nothing was saved."""
        return self.saving / self.saves if self.saves else None

    @property
    def failure_seconds(self) -> float | None:
        """Time between interruptions, down times included; None where there was none."""
        return self.total / self.interruptions if self.interruptions else None

    @property
    def restart_cost(self) -> float | None:
        """Seconds from an interruption until the training goes on."""
        return (self.restarting + self.down) / self.interruptions if self.interruptions else None

    @property
    def young_goodput(self) -> float | None:
        """What Young's estimate gives for the best interval, with what was measured here; None where too little was."""
        save, failure, restart = self.save_cost, self.failure_seconds, self.restart_cost
        if save is None or not failure or restart is None:
            return None
        return max(1.0 - young_loss(save, failure, restart), 0.0)


def young_loss(save_seconds: float, failure_seconds: float, restart_seconds: float) -> float:
    """The share of time that saves, lost work and restarts take at the best interval between saves, to first order:
    sqrt(2 T_save / T_fail) + T_restart / T_fail, for interruptions at random moments and without notice.

    J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974),
    https://doi.org/10.1145/361147.361115
    """
    return math.sqrt(2 * save_seconds / failure_seconds) + restart_seconds / failure_seconds


def account(times: JobTimes) -> Account | None:
    """Where the time of a training went; None where its attempts do not say at which steps they were."""
    attempts = sorted(times.attempts, key=lambda one: one.number)
    if not attempts or any(one.first_step is None or one.step is None for one in attempts):
        return None
    lost = sum(lost_seconds(before, after) for before, after in pairwise(attempts))
    gaps = [_gap(before, after) for before, after in pairwise(attempts)]
    downs = [_down(times, gap) for gap in gaps]
    down = sum(ended - started for started, ended in downs)
    between = sum(ended - started for started, ended in gaps)
    restarting = between - down + sum(one.restart_seconds for one in attempts[1:])
    saving = sum(one.stall_seconds for one in attempts)
    total = max(attempts[-1].time - attempts[0].started - attempts[0].restart_seconds, 0.0)
    return Account(
        useful=max(total - lost - down - restarting - saving, 0.0),
        saving=saving,
        lost=lost,
        restarting=restarting,
        down=down,
        saves=sum(one.saves for one in attempts),
        interruptions=len(attempts) - 1,
    )


def _gap(before: Attempt, after: Attempt) -> tuple[float, float]:
    return before.time, max(after.started, before.time)


def _down(times: JobTimes, gap: tuple[float, float]) -> tuple[float, float]:
    """The part of the time between two attempts without machines at work: all of it, unless the job's phases say when
    it had some."""
    if not times.phases:
        return gap
    started, ended = gap
    parts = [
        (max(phase.started, started), min(phase.ended, ended))
        for phase in times.phases
        if _PHASES.get(phase.status) != "training" and phase.started < ended and phase.ended > started
    ]
    return (parts[0][0], parts[-1][1]) if parts else (ended, ended)


def lost_seconds(before: Attempt, after: Attempt) -> float:
    """The time of the steps that `after` took again, at the pace of the attempt that had taken them first."""
    assert before.step is not None and before.first_step is not None and after.first_step is not None
    taken, again = before.step - before.first_step, max(before.step - after.first_step, 0)
    training = before.time - before.started - before.restart_seconds - before.stall_seconds
    return max(training, 0.0) * min(again / taken, 1.0) if taken > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What a machine costs: the spot discount (0.7: 70 % off), and the on-demand price of an hour where it is known."""

    discount: float
    on_demand: float | None = None


@dataclass(frozen=True, kw_only=True)
class Saving:
    """What spot machines saved against on-demand ones on which the same training runs through.

    `paid` and `needed` are machine seconds: with the work lost and the restarts, and without. `cost` and
    `on_demand_cost` are in the currency of the price, where one was given.
    """

    discount: float
    paid: float
    needed: float
    cost: float | None = None
    on_demand_cost: float | None = None

    @property
    def share(self) -> float:
        """Of what on-demand machines would have cost; negative where the interruptions cost more than was saved."""
        return 1.0 - (1.0 - self.discount) * self.paid / self.needed

    @property
    def break_even(self) -> float:
        """The discount at which spot machines would have cost as much as on-demand ones."""
        return 1.0 - self.needed / self.paid


def measured_discount(times: JobTimes) -> float | None:
    """What the service charged less, by its own formula, 1 - BillableTimeInSeconds / TrainingTimeInSeconds
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html); None where it charged
    all, or nobody did."""
    training, billable = times.training_seconds, times.billable_seconds
    if not times.billed or not training or billable is None or billable >= training:
        return None
    return 1.0 - billable / training


def saving(times: JobTimes, prices: Prices) -> Saving | None:
    """The saving at these prices; None where the times are not known."""
    spent = account(times)
    paid = times.machine_seconds
    if spent is None or not paid:
        return None
    needed = paid - spent.lost - spent.restarting
    if needed <= 0:
        return None
    hours = times.hosts / 3600
    at_price = prices.on_demand
    return Saving(
        discount=prices.discount,
        paid=paid * times.hosts,
        needed=needed * times.hosts,
        cost=None if at_price is None else (1 - prices.discount) * at_price * paid * hours,
        on_demand_cost=None if at_price is None else at_price * needed * hours,
    )


def spans(times: JobTimes) -> Sequence[tuple[str, float, float]]:
    """(`restart`, `training`, `lost` or `down`; from; to), in order, seconds since the epoch.

    `lost` is the end of an attempt whose steps were taken again; without attempts the job's own phases are all.
    """
    attempts = sorted(times.attempts, key=lambda one: one.number)
    if not attempts:
        return [(_PHASES.get(phase.status, "restart"), phase.started, phase.ended) for phase in times.phases]
    found: list[tuple[str, float, float]] = []
    for place, one in enumerate(attempts):
        after = attempts[place + 1] if place + 1 < len(attempts) else None
        first = min(one.started + one.restart_seconds, one.time)
        lost = 0.0
        if after and one.step is not None and one.first_step is not None and after.first_step is not None:
            lost = min(lost_seconds(one, after), one.time - first)
        found += [("restart", one.started, first), ("training", first, one.time - lost)]
        found.append(("lost", one.time - lost, one.time))
        if after:
            gap = _gap(one, after)
            down, up = _down(times, gap)
            found += [("restart", gap[0], down), ("down", down, up), ("restart", up, gap[1])]
    return _joined([span for span in found if span[2] > span[1]])


def _joined(found: Sequence[tuple[str, float, float]]) -> Sequence[tuple[str, float, float]]:
    """Stretches of one kind that follow each other, as one."""
    joined: list[tuple[str, float, float]] = []
    for kind, started, ended in found:
        if joined and joined[-1][0] == kind and joined[-1][2] == started:
            started = joined.pop()[1]
        joined.append((kind, started, ended))
    return joined
