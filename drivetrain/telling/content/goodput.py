"""The cost of interruptions for a training: where its time went, and what was possible.

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

    `time` is its last sign of life, `gone` when it had no machines any more, `first_step` the step that it went on from
    (0 at the very beginning), `step` the last one that it took. `stall_seconds` are those in which its `saves` stopped
    it, all together; `restart_seconds` go from the start to the first step. `saved` are saves: (step, moment). `job`
    counts the jobs of a training that failed and was resumed.
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
    spot: bool | None = None
    gone: float | None = None
    job: int = 1

    @property
    def until(self) -> float:
        """When its machines had gone, as far as is known."""
        return max(self.time, self.gone or 0.0)

    @property
    def took_steps(self) -> bool:
        return self.first_step is not None and self.step is not None and self.step > self.first_step


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """One time that a training's machines were taken away, which ended the `start` of this number. Unknown fields are
    None."""

    start: int | None = None
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

    `spot` says whether any of it ran on spot machines. `training_seconds` and `billable_seconds` are
    DescribeTrainingJob's TrainingTimeInSeconds and BillableTimeInSeconds, `hosts` is by how many machines both are
    multiplied on a bill. Nobody bills a run on this machine: what it would pay for are its attempts.
    """

    step: str
    spot: bool = False
    hosts: int = 1
    training_seconds: float | None = None
    billable_seconds: float | None = None
    attempts: tuple[Attempt, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    phases: tuple[Phase, ...] = ()

    @property
    def machine_seconds(self) -> float | None:
        """For how long one machine is paid for."""
        return sum(one.until - one.started for one in self.attempts) or None

    @property
    def on_demand_seconds(self) -> float:
        """Those of them on machines that stay, where a training went from spot machines to them."""
        on_demand = [one for one in self.attempts if one.spot is False or (one.spot is None and not self.spot)]
        return sum(one.until - one.started for one in on_demand)

    @property
    def steps_lost(self) -> int | None:
        """All steps that were taken again; None where that of one interruption is not known."""
        lost = [one.steps_lost for one in self.interruptions]
        return None if None in lost else sum(one for one in lost if one is not None)


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of a training's seconds, from its first start to its end, without one start (`starting`): that one
    a training without interruptions needs, too."""

    useful: float
    """Steps that count in the end."""
    saving: float
    """The training stood still while its state was copied."""
    lost: float
    """Steps that were taken again."""
    restarting: float
    """Leaving after an interruption, and coming back to the next step: imports, data, the checkpoint; starts that were
    interrupted before they took a step, too."""
    down: float
    """No machines."""
    saves: int
    interruptions: int
    starting: float = 0.0

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
        """Young's estimate for the best interval, from what was measured here; None if that is too little."""
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
    """Account for a training's time; None if no start recorded a step."""
    attempts = sorted(times.attempts, key=lambda one: one.number)
    stepping = [one for one in attempts if one.took_steps]
    if not stepping:
        return None
    down = sum(max(after.started - before.until, 0.0) for before, after in pairwise(attempts))
    lost = sum(lost_seconds(before, after) for before, after in pairwise(stepping))
    training = sum(max(one.time - one.started - one.restart_seconds, 0.0) for one in stepping)
    saving = min(sum(one.stall_seconds for one in stepping), max(training - lost, 0.0))
    useful = max(training - lost - saving, 0.0)
    starting = min(stepping[0].restart_seconds, stepping[0].time - stepping[0].started)
    whole = attempts[-1].time - attempts[0].started
    return Account(
        useful=useful,
        saving=saving,
        lost=lost,
        restarting=max(whole - starting - useful - saving - lost - down, 0.0),
        down=down,
        saves=sum(one.saves for one in attempts),
        interruptions=len(times.interruptions),
        starting=starting,
    )


def started_after(times: JobTimes) -> dict[int, float]:
    """Job -> seconds from the start of the training until its own, of the last job and of those before it with whose
    training it went on."""
    first: dict[int, float] = {}
    attempts = _since_the_beginning(times)
    for one in attempts:
        first.setdefault(one.job, one.started - attempts[0].started)
    return first


def _since_the_beginning(times: JobTimes) -> list[Attempt]:
    """The starts in their order, from that of the last job that began at no checkpoint of another."""
    attempts = sorted(times.attempts, key=lambda one: one.number)
    anew = [place for place in range(1, len(attempts)) if attempts[place].job != attempts[place - 1].job
            and not attempts[place].first_step]  # fmt: skip
    return attempts[anew[-1] :] if anew else attempts


@dataclass(frozen=True, kw_only=True)
class Break:
    """The place where a training's curves broke off: a step, and a second since its first start; None if that is
    not known. `lost` are the seconds until it was as far again."""

    at_step: int | None
    at_second: float | None
    lost: float | None
    steps_lost: int | None


def breaks(times: JobTimes) -> list[Break]:
    """One for each start but the first of the curves; of a training that tells of no starts, one for each
    interruption."""
    attempts = _since_the_beginning(times)
    if not times.attempts:
        return [
            Break(at_step=one.at_step, at_second=None, lost=one.seconds_down, steps_lost=one.steps_lost)
            for one in times.interruptions
        ]
    found: list[Break] = []
    reached: Attempt | None = None
    for before, after in pairwise(attempts):
        reached = before if before.took_steps else reached
        again = lost_seconds(reached, after) if reached is not None and after.took_steps else 0.0
        step = reached.step if reached is not None else None
        found.append(
            Break(
                at_step=step,
                at_second=before.time - attempts[0].started,
                lost=max(after.started - before.time, 0.0) + after.restart_seconds + again,
                steps_lost=None if step is None or after.first_step is None else max(step - after.first_step, 0),
            )
        )
    return found


def lost_seconds(before: Attempt, after: Attempt) -> float:
    """The time of the steps that `after` took again, at the pace of the attempt that had taken them first."""
    assert before.step is not None and before.first_step is not None and after.first_step is not None
    taken, again = before.step - before.first_step, max(before.step - after.first_step, 0)
    training = before.time - before.started - before.restart_seconds - before.stall_seconds
    return max(training, 0.0) * min(again / taken, 1.0) if taken > 0 else 0.0


def spans(times: JobTimes) -> Sequence[tuple[str, float, float]]:
    """(`restart`, `training`, `lost` or `down`; from; to), in order, seconds since the epoch.

    `lost` is the end of an attempt whose steps were taken again; without attempts the job's own phases are all.
    """
    attempts = sorted(times.attempts, key=lambda one: one.number)
    if not attempts:
        return [(_PHASES.get(phase.status, "restart"), phase.started, phase.ended) for phase in times.phases]
    found: list[tuple[str, float, float]] = []
    tells = any(one.took_steps for one in attempts)
    stepping = [one for one in attempts if one.took_steps]
    following = {one.number: after for one, after in pairwise(stepping)}
    for place, one in enumerate(attempts):
        if place:
            found.append(("down", attempts[place - 1].until, one.started))
        if tells and not one.took_steps:
            found.append(("restart", one.started, one.until))
            continue
        after = following.get(one.number)
        first = min(one.started + one.restart_seconds, one.time)
        lost = min(lost_seconds(one, after), one.time - first) if after else 0.0
        found += [("restart", one.started, first), ("training", first, one.time - lost)]
        found += [("lost", one.time - lost, one.time), ("restart", one.time, one.until)]
    return _joined([span for span in found if span[2] > span[1]])


def _joined(found: Sequence[tuple[str, float, float]]) -> Sequence[tuple[str, float, float]]:
    """Stretches of one kind that follow each other, as one."""
    joined: list[tuple[str, float, float]] = []
    for kind, started, ended in found:
        if joined and joined[-1][0] == kind and joined[-1][2] == started:
            started = joined.pop()[1]
        joined.append((kind, started, ended))
    return joined
