"""The decision itself: a function of two evaluations and a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from drivetrain.components.decision.differences import Difference, check_comparable, differences
from drivetrain.components.decision.evaluation import ALL, Evaluation
from drivetrain.components.decision.limits import (
    Floor,
    Regression,
    check_budgets,
    checked_floors,
    measured,
    regressions,
)
from drivetrain.components.decision.policy import Policy
from drivetrain.components.decision.words import count, number, percent, place, signed
from drivetrain.components.errors import InputError

_MOST_TOLD = 5

Verdict = Literal["register", "keep champion", "below floors", "already registered"]


@dataclass(frozen=True, kw_only=True)
class Champion:
    """The newest approved version. `evaluation` is None where it was not evaluated, for the candidate is registered
    already."""

    version: int
    content_hash: str
    evaluation: Evaluation | None


@dataclass(frozen=True, kw_only=True)
class Registered:
    """The version that has the candidate's content already."""

    version: int
    status: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided, why, and on what grounds."""

    verdict: Verdict
    why: tuple[str, ...]
    policy: Policy
    candidate: Evaluation
    champion: Champion | None
    difference: Difference | None
    """Of the metric that decides; None without a champion's evaluation."""
    differences: tuple[Difference, ...]
    """Of every metric that both models have, the whole test set first."""
    floors: tuple[Floor, ...]
    regressions: tuple[Regression, ...]
    registered: Registered | None

    @property
    def floors_met(self) -> bool:
        return all(floor.met for floor in self.floors)

    @property
    def within_budgets(self) -> bool:
        return all(regression.within for regression in self.regressions)

    @property
    def better(self) -> bool:
        """Whether the rule holds against the champion; where there is none, whether there is something new."""
        if self.difference is not None:
            return rule_holds(self.policy, self.difference)
        return self.champion is None and self.registered is None


def check_policy(candidate: Evaluation, policy: Policy) -> None:
    """Refuse a policy that cannot be decided on the candidate's numbers: before a champion is fetched.

    Raises:
        InputError: a metric or slice that there is not, that is undefined, or of which neither more nor less is better.
    """
    if measured(candidate, policy.metric, ALL, "metric").higher_is_better is None:
        raise InputError(f"metric={policy.metric!r} cannot decide: neither more nor less of it is better.")
    checked_floors(candidate, policy.floors)
    check_budgets(candidate, policy.budgets)


def decide(
    candidate: Evaluation,
    champion: Champion | None,
    policy: Policy,
    *,
    registered: Registered | None = None,
    asked: str = "",
) -> Decision:
    """Decide whether the candidate is registered.

    Args:
        champion: None where the group has no approved version: then the floors alone decide.
        registered: the version that has the candidate's content already.
        asked: where a champion was looked for, for the reasons: "digits in the registry local".

    Raises:
        InputError: as `check_policy`; two evaluations that were not made on the same samples and replicates.
    """
    check_policy(candidate, policy)
    floors = checked_floors(candidate, policy.floors)
    difference: Difference | None = None
    every: tuple[Difference, ...] = ()
    losses: tuple[Regression, ...] = ()
    if champion is not None and champion.evaluation is not None:
        check_comparable(candidate, champion.evaluation, policy.confidence)
        measured(champion.evaluation, policy.metric, ALL, "metric")
        every = tuple(differences(candidate, champion.evaluation, policy.confidence))
        difference = next(each for each in every if (each.metric, each.slice) == (policy.metric, ALL))
        losses = regressions(candidate, champion.evaluation, policy.budgets)
    verdict: Verdict
    if not all(floor.met for floor in floors):
        verdict = "below floors"
    elif registered is not None:
        verdict = "already registered"
    elif difference is None:
        verdict = "register"
    else:
        kept = rule_holds(policy, difference) and all(loss.within for loss in losses)
        verdict = "register" if kept else "keep champion"
    why = [
        *_first([_about_floor(floor) for floor in floors if not floor.met], "floors are not met"),
        *([] if registered is None else [_about_registered(registered)]),
        *_about_champion(candidate, champion, policy, difference, registered, floors, asked),
        *_first([_about_loss(loss) for loss in losses if not loss.within], "budgets are exceeded"),
        *_about_met(floors, losses),
    ]
    return Decision(
        verdict=verdict,
        why=tuple(why),
        policy=policy,
        candidate=candidate,
        champion=champion,
        difference=difference,
        differences=every,
        floors=floors,
        regressions=losses,
        registered=registered,
    )


def rule_holds(policy: Policy, difference: Difference) -> bool:
    """Whether the policy's rule holds for the difference of its metric. Where too few replicates define that, it is
    not shown to hold."""
    gained = difference.surest_gain
    if gained is None:
        return False
    return gained > 0 and gained >= policy.margin if policy.rule == "better" else gained >= -policy.margin


def _first(told: Sequence[str], others: str) -> list[str]:
    """The first few of many reasons of one kind, for there may be hundreds of slices."""
    rest = len(told) - _MOST_TOLD
    return [*told[:_MOST_TOLD], *([f"{rest:,} more {others}."] if rest > 0 else [])]


def _about_floor(floor: Floor) -> str:
    limit = "at least" if floor.higher_is_better else "at most"
    bound = f" (known to within {number(floor.bound)})" if floor.bound else ""
    return (
        f"{place(floor.metric, floor.slice)} is {number(floor.value)}{bound}; {limit} {number(floor.least)} is asked."
    )


def _about_registered(registered: Registered) -> str:
    status = {"PendingManualApproval": "waits for approval", "Approved": "is approved", "Rejected": "was rejected"}
    return f"This content is version {registered.version} already, which {status.get(registered.status, 'is there')}."


def _about_champion(
    candidate: Evaluation,
    champion: Champion | None,
    policy: Policy,
    difference: Difference | None,
    registered: Registered | None,
    floors: Sequence[Floor],
    asked: str,
) -> list[str]:
    if champion is None:
        if registered is not None:
            return []
        value, samples = candidate.whole.metrics[policy.metric].value, candidate.whole.num_samples
        told = f"No version{f' of {asked}' if asked else ''} is approved yet, so the floors alone decide"
        below = any(not floor.met and (floor.metric, floor.slice) == (policy.metric, ALL) for floor in floors)
        return [f"{told}." if below else f"{told}: {policy.metric} is {number(value)} on {count(samples, 'sample')}."]
    if difference is None:
        return []
    asked = _asked(policy)
    told = (
        f"{policy.metric} is {number(difference.candidate)} against {number(difference.champion)} of version "
        f"{champion.version}: {_compared(difference)}. {asked}"
    )
    if difference.defined is None:
        return [told, "There are no bootstrap replicates: the values alone decide, whatever chance there is in them."]
    if difference.interval is None:
        return [told, f"Only {count(difference.defined, 'replicate')} define it: too few for an interval."]
    if difference.interval.bound:
        told += (
            f" The interval is wider by {number(difference.interval.bound)} at each end: so far the replicates may be "
            "from exact; those that leave open which model is better count for neither."
        )
    if difference.bound:
        told += f" Of that, {number(difference.bound)} is taken off: so far the two values may be from exact."
    return [told]


def _compared(difference: Difference) -> str:
    sized = signed(difference.value)
    if difference.interval is None:
        return sized
    interval = difference.interval
    left_out = f", {interval.left_out} left out as undefined" if interval.left_out else ""
    better = percent(difference.share_better or 0)
    return (
        f"{sized}, with {percent(interval.confidence)} confidence {signed(interval.low)} to {signed(interval.high)} "
        f"({count(interval.replicates, 'paired replicate')}{left_out}; better in {better} of them)"
    )


def _asked(policy: Policy) -> str:
    if policy.rule == "not_worse":
        return (
            f"It must surely not be worse by more than {number(policy.margin)}."
            if policy.margin
            else "It must surely not be worse."
        )
    return f"It must surely be better by {number(policy.margin)}." if policy.margin else "It must surely be better."


def _about_loss(loss: Regression) -> str:
    return (
        f"{place(loss.metric, loss.slice)} is {number(loss.loss)} worse than the champion's; at most "
        f"{number(loss.budget)} is allowed."
    )


def _about_met(floors: Sequence[Floor], losses: Sequence[Regression]) -> list[str]:
    told: list[str] = []
    if floors and all(floor.met for floor in floors):
        told.append(f"{'The floor is' if len(floors) == 1 else f'All {len(floors)} floors are'} met.")
    if losses and all(loss.within for loss in losses):
        told.append(f"{'The budget is' if len(losses) == 1 else f'All {len(losses)} budgets are'} kept.")
    return told
