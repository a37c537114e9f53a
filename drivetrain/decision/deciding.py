"""The decision itself: a function of two evaluations and a policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from drivetrain.base.errors import InputError
from drivetrain.decision.budget_reasons import about_few, about_loss, about_untested
from drivetrain.decision.differences import Difference, check_comparable, differences
from drivetrain.decision.evaluation import ALL, Evaluation
from drivetrain.decision.formatting import count, number, percent, place, signed
from drivetrain.decision.limits import (
    SAY_IT,
    Floor,
    Regression,
    check_budgets,
    checked_floors,
    measured,
    regressions,
    unchecked,
    unproven,
)
from drivetrain.decision.policy import Policy
from drivetrain.decision.standing import Standing, about_standing

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
    """A decision, its reasons and its evidence."""

    why: tuple[str, ...]
    policy: Policy
    candidate: Evaluation
    champion: Champion | None
    difference: Difference | None
    """The difference of the metric that decides; None without a champion's evaluation."""
    differences: tuple[Difference, ...]
    """The differences of every metric that both models have, the whole test set first."""
    floors: tuple[Floor, ...]
    regressions: tuple[Regression, ...]
    registered: Registered | None
    comparison: int | None
    """Its number among the comparisons on this test set, from 1; None where they are not counted."""
    standing: Standing | None = None
    """The standing of its line; None if nights are not pooled."""
    anchor: Champion | None = None
    """The best approved version, where `not_worse` counts from it and it is not the champion."""
    anchor_difference: Difference | None = None
    """The difference of the metric that decides, to that version."""

    @property
    def verdict(self) -> Verdict:
        if not self.floors_met:
            return "below floors"
        if self.registered is not None:
            return "already registered"
        if self.difference is None:
            return "register"
        return "register" if self.better and self.within_budgets else "keep champion"

    @property
    def floors_met(self) -> bool:
        return all(floor.met for floor in self.floors)

    @property
    def within_budgets(self) -> bool:
        theirs = self.champion and self.champion.evaluation
        return all(each.within for each in self.regressions) and not (
            theirs and unproven(self.candidate, theirs, self.policy)
        )

    @property
    def better(self) -> bool:
        """True if the rule holds against the champion; without a champion, if there is something new."""
        if self.difference is not None:
            if self.standing is not None:
                holds = self.standing.is_better
            else:
                compared = (self.difference, self.anchor_difference)
                holds = all(rule_holds(self.policy, each) for each in compared if each is not None)
            return holds and not used_up(self.policy, self.comparison)
        return self.champion is None and self.registered is None


def check_policy(candidate: Evaluation, policy: Policy) -> None:
    """Refuse a policy that cannot be decided on the candidate's numbers: before a champion is fetched.

    Raises:
        InputError: a metric or slice is missing or undefined, or the metric has no direction that is better.
    """
    if measured(candidate, policy.metric, ALL, "metric").higher_is_better is None:
        raise InputError(f"metric={policy.metric!r} cannot decide: nothing says whether more of it is better. {SAY_IT}")
    checked_floors(candidate, policy.floor_limits)
    check_budgets(candidate, policy)


def decide(
    candidate: Evaluation,
    champion: Champion | None,
    policy: Policy,
    *,
    registered: Registered | None = None,
    comparison: int | None = None,
    asked: str = "",
    anchor: Champion | None = None,
    standing: Standing | None = None,
) -> Decision:
    """Decide whether the candidate is registered.

    Args:
        champion: None where the group has no approved version: then the floors alone decide.
        registered: the version that has the candidate's content already.
        comparison: how many candidates were compared on this test set, this one included; None where nobody counts.
        asked: where a champion was looked for, for the reasons: "digits in the registry local".
        standing: where the candidate's line stands: then the line decides whether the candidate is better.
        anchor: the best approved version, with its evaluation, where the candidate must not be worse than that, too.

    Raises:
        InputError: as `check_policy`; two evaluations that were not made on the same samples and replicates.
    """
    check_policy(candidate, policy)
    floors = checked_floors(candidate, policy.floor_limits)
    difference: Difference | None = None
    every: tuple[Difference, ...] = ()
    losses: tuple[Regression, ...] = ()
    anchored: Difference | None = None
    if champion is not None and champion.evaluation is not None:
        check_comparable(
            candidate, champion.evaluation, (policy.metric, *(limit.metric for limit in policy.budget_limits))
        )
        measured(champion.evaluation, policy.metric, ALL, "metric")
        every = tuple(differences(candidate, champion.evaluation, policy.confidence))
        difference = next(each for each in every if (each.metric, each.slice) == (policy.metric, ALL))
        losses = regressions(candidate, champion.evaluation, policy, every)
        if anchor is not None and anchor.evaluation is not None:
            anchored = difference_of(candidate, anchor.evaluation, policy)
    why = [
        *candidate.seen,
        *_seen_by_champion(candidate, champion),
        *_first([_about_floor(floor) for floor in floors if not floor.met], "floors are not met"),
        *([] if registered is None else [_about_registered(registered)]),
        *_about_champion(candidate, champion, policy, difference, registered, comparison, floors, asked, standing),
        *([] if standing is None else about_standing(standing)),
        *([] if anchor is None or anchored is None else [_about_anchor(anchor, anchored, policy)]),
        *_first([about_loss(loss, policy) for loss in losses if not loss.within], "budgets are not kept"),
        *_first([about_untested(loss) for loss in losses if loss.untested], "budgets are not tested"),
        *about_few(losses),
        *_about_use(policy, comparison),
        *_about_met(floors, losses),
        *_first(unchecked(candidate, champion and champion.evaluation, policy), "are undefined"),
    ]
    return Decision(
        why=tuple(why),
        policy=policy,
        candidate=candidate,
        champion=champion,
        difference=difference,
        differences=every,
        floors=floors,
        regressions=losses,
        registered=registered,
        comparison=comparison,
        anchor=None if anchored is None else anchor,
        anchor_difference=anchored,
        standing=standing,
    )


def difference_of(candidate: Evaluation, other: Evaluation, policy: Policy) -> Difference:
    """How far the candidate's metric that decides lies from another model's, on the same test set.

    Raises:
        InputError: they were not made on the same samples and replicates, or the metric is undefined.
    """
    check_comparable(candidate, other)
    measured(other, policy.metric, ALL, "metric")
    every = differences(candidate, other, policy.confidence)
    return next(each for each in every if (each.metric, each.slice) == (policy.metric, ALL))


def used_up(policy: Policy, comparison: int | None) -> bool:
    """Return True if the test set has decided as many comparisons as the policy's level allows for. A horizon of 1,
    which corrects for nothing, ends nothing either."""
    return comparison is not None and comparison > policy.horizon > 1


def rule_holds(policy: Policy, difference: Difference) -> bool:
    """True where the policy's rule holds for the difference of its metric. Where there is too little to tell it from
    chance, it is not shown to hold."""
    gained = difference.surest_gain(policy.level)
    if gained is None:
        return False
    if policy.rule == "not_worse":
        lost = difference.surest_loss(policy.level)
        return lost is not None and lost <= policy.margin
    return gained > 0 and gained >= policy.margin


def _first(told: Sequence[str], others: str) -> list[str]:
    """The first few of many reasons of one kind, for there may be hundreds of slices."""
    rest = len(told) - _MOST_TOLD
    return [*told[:_MOST_TOLD], *([f"{rest:,} more {others}."] if rest > 0 else [])]


def _seen_by_champion(candidate: Evaluation, champion: Champion | None) -> list[str]:
    """Name what only the champion knows of the test set: its numbers are too good then."""
    if champion is None or champion.evaluation is None:
        return []
    return [f"Version {champion.version}: {each}" for each in champion.evaluation.seen if each not in candidate.seen]


def _about_floor(floor: Floor) -> str:
    limit = "at least" if floor.higher_is_better else "at most"
    bound = f" (known to within {number(floor.bound)})" if floor.bound else ""
    where = place(floor.metric, floor.slice)
    return f"{where} is {number(floor.value)}{bound}; {limit} {number(floor.least)} is required."


def _about_registered(registered: Registered) -> str:
    status = {"PendingManualApproval": "waits for approval", "Approved": "is approved", "Rejected": "was rejected"}
    known = status.get(registered.status, "is registered")
    return f"This content is already registered as version {registered.version}, which {known}."


def _about_champion(
    candidate: Evaluation,
    champion: Champion | None,
    policy: Policy,
    difference: Difference | None,
    registered: Registered | None,
    comparison: int | None,
    floors: Sequence[Floor],
    asked: str,
    standing: Standing | None,
) -> list[str]:
    if champion is None:
        if registered is not None:
            return []
        value, samples = candidate.whole.metrics[policy.metric].value, candidate.whole.num_samples
        told = f"No version{f' of {asked}' if asked else ''} is approved yet, so only the floors decide"
        below = any(not floor.met and (floor.metric, floor.slice) == (policy.metric, ALL) for floor in floors)
        return [f"{told}." if below else f"{told}: {policy.metric} is {number(value)} on {count(samples, 'sample')}."]
    if difference is None:
        return []
    told = (
        f"{policy.metric} is {number(difference.candidate)} against {number(difference.champion)} of version "
        f"{champion.version}: {_compared(difference)}."
    )
    by_values = difference.interval is None and not difference.why_none
    if not by_values:
        told += f" {_asked(policy)}"
    if candidate.evidence is not None and policy.metric in candidate.evidence.left_out:
        told += f" What each row says of {policy.metric} was too large to keep: the bootstrap's replicates decide."
    if by_values:
        return [told, "There are no bootstrap replicates: only the values decide, and chance is not accounted for."]
    if difference.interval is None:
        return [told, f"There is no interval: {difference.why_none}."]
    if standing is None:
        told += _surely(difference, policy, comparison)
    if difference.bound:
        told += f" The interval is wider by {number(difference.bound)} at each end, the error bound of the values."
    return [told]


def _compared(difference: Difference) -> str:
    sized = signed(difference.value)
    if difference.interval is None:
        return sized
    interval = difference.interval
    about = [difference.unless] if difference.unless else []
    if difference.counts is not None:
        won, lost, of = difference.counts
        about.append(f"{won:,} improved and {lost:,} got worse of {count(of, 'sample')}")
    told = f"{sized}, with {percent(interval.confidence)} confidence {signed(interval.low)} to {signed(interval.high)}"
    return told + (f" ({'; '.join(about)})" if about else "")


def _asked(policy: Policy) -> str:
    if policy.rule == "not_worse":
        return f"The test must rule out that it is worse{_by_more(policy)}."
    least = f" and at least {number(policy.margin)}" if policy.margin else ""
    return f"The improvement must be statistically significant{least}."


def _by_more(policy: Policy) -> str:
    return f" by more than {number(policy.margin)}" if policy.margin else ""


def _surely(difference: Difference, policy: Policy, comparison: int | None) -> str:
    """The result of the corrected test, where it differs from the interval's."""
    gained = difference.surest_gain(policy.level)
    if difference.interval is None or gained is None or policy.horizon == 1 or used_up(policy, comparison):
        return ""
    level = percent(policy.level)
    every = f"{policy.horizon:,}"
    which = f"one of {every} comparisons" if comparison is None else f"comparison {comparison:,} of {every}"
    told = f" This is {which} on this test set, so its error rate is limited to {level}"
    if not math.isfinite(gained):
        return f"{told}, for which there are too few samples."
    return f"{told}: at that level the gain is at least {signed(gained)}."


def _about_use(policy: Policy, comparison: int | None) -> list[str]:
    if not used_up(policy, comparison):
        return []
    return [
        f"{policy.horizon:,} candidates have been compared on this test set, which is all that "
        f"horizon={policy.horizon} allows: one more could be registered by chance. Use a new test set, or raise the "
        "horizon."
    ]


def _about_anchor(anchor: Champion, difference: Difference, policy: Policy) -> str:
    holds = "This is ruled out" if rule_holds(policy, difference) else "This is not ruled out"
    return (
        f"{policy.metric} is {number(difference.champion)} of version {anchor.version}, the best approved one: "
        f"{_compared(difference)}. It must not be worse than that version either{_by_more(policy)}. {holds}."
    )


def _about_met(floors: Sequence[Floor], losses: Sequence[Regression]) -> list[str]:
    told: list[str] = []
    if floors and all(floor.met for floor in floors):
        by_chance = sum(floor.sure is False for floor in floors)
        perhaps = (
            "" if not by_chance else ", perhaps by chance" if len(floors) == 1 else f", {by_chance} perhaps by chance"
        )
        told.append(f"{'The floor is' if len(floors) == 1 else f'All {len(floors)} floors are'} met{perhaps}.")
    tested = [loss for loss in losses if not loss.untested]
    if tested and all(loss.within for loss in tested):
        every = "All" if len(tested) == len(losses) else "The other"
        one = "The budget is" if len(losses) == 1 else "The other budget is"
        told.append(f"{one if len(tested) == 1 else f'{every} {len(tested)} budgets are'} kept.")
    return told
