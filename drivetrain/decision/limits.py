"""Floors, which the candidate must reach by itself, and budgets, by which it may be worse than the champion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.decision.differences import Difference
from drivetrain.decision.evaluation import ALL, Evaluation, Group, Measured
from drivetrain.decision.formatting import place
from drivetrain.decision.intervals import rejected
from drivetrain.decision.noninferiority import likely_ruled_out
from drivetrain.decision.policy import Limit, Policy

SAY_IT = "A recipe says so of its own metrics by higher_is_better; others are named in docs/metrics.md."


@dataclass(frozen=True, kw_only=True)
class Floor:
    """One floor. The value's error bound counts against the candidate: `value` - `bound` must reach `least`; where
    less of the metric is better, `value` + `bound` must not exceed it. `sure` says whether the whole interval does;
    None where there is no interval."""

    metric: str
    slice: str
    least: float
    value: float
    bound: float
    higher_is_better: bool
    met: bool
    sure: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One budget: `difference` is candidate - champion, `loss` how much worse the candidate is, error bounds of both
    values added. `chance` is how often a candidate that keeps to the budget looks so much worse, None without
    an interval: then the values decide. With one it is `within` unless the loss is more than chance, all budgets looked
    at together; where budgets must be proven, if `at_most` is. `samples` are those that the metric is measured on."""

    metric: str
    slice: str
    difference: float
    loss: float
    budget: float
    within: bool
    chance: float | None = None
    samples: int = 0
    at_most: float | None = None
    """A greater loss is ruled out, at 1 - confidence; None without an interval."""
    could_rule_out: float | None = None
    """The loss that the samples rule out in 80 % of cases, if both models are equally good and differ as often as
    here."""
    untested: str = ""
    """Why the budget is not tested, as a clause: then it is `within`. A budget that must be proven is not, then."""


def checked_floors(candidate: Evaluation, floors: tuple[Limit, ...]) -> tuple[Floor, ...]:
    """Each floor on each slice that it names and that defines the metric.

    Raises:
        InputError: no such metric or slice, or one that the samples do not define.
    """
    found: list[Floor] = []
    for limit in floors:
        for name in _groups(candidate, limit, "floors"):
            if is_undefined(candidate, limit.metric, name):
                continue
            value = measured(candidate, limit.metric, name, "floors")
            higher = _direction(value, limit, "floors")
            reached = value.value - value.bound >= limit.amount if higher else value.value + value.bound <= limit.amount
            found.append(
                Floor(
                    metric=limit.metric,
                    slice=name,
                    least=limit.amount,
                    value=value.value,
                    bound=value.bound,
                    higher_is_better=higher,
                    met=reached,
                    sure=_surely(value, limit.amount, higher),
                )
            )
    return tuple(found)


def _surely(value: Measured, least: float, higher: bool) -> bool | None:
    if value.low is None or value.high is None:
        return None
    return value.low >= least if higher else value.high <= least


def is_undefined(evaluation: Evaluation, metric: str, name: str) -> bool:
    """Return True if a slice does not define a metric: the decision says so and goes on. (On the whole test set it is
    an error.)"""
    return name != ALL and metric in evaluation.groups[name].undefined


def unchecked(candidate: Evaluation, champion: Evaluation | None, policy: Policy) -> tuple[str, ...]:
    """For people: floors and budgets that a slice leaves undefined. A budget that must be proven is not met then."""
    lost = "is not proven" if policy.budget_rule == "proven" else "was not checked"
    budgets = _undefined((candidate, *((champion,) if champion else ())), policy.budget_limits, "budget")
    floors = _undefined((candidate,), policy.floor_limits, "floor")
    return (
        *(f"{told}: its floor was not checked." for told in floors),
        *(f"{told}: its budget {lost}." for told in budgets),
    )


def unproven(candidate: Evaluation, champion: Evaluation, policy: Policy) -> bool:
    """True where a budget that must be proven is on a slice that leaves its metric undefined."""
    return policy.budget_rule == "proven" and bool(_undefined((candidate, champion), policy.budget_limits, "budget"))


def _undefined(models: Iterable[Evaluation], limits: tuple[Limit, ...], where: str) -> list[str]:
    found: dict[str, None] = {}
    for model in models:
        for limit in limits:
            for name in _groups(model, limit, f"{where}s"):
                if is_undefined(model, limit.metric, name):
                    why = model.groups[name].undefined[limit.metric]
                    found[f"{place(limit.metric, name)} is undefined ({why})"] = None
    return list(found)


def regressions(
    candidate: Evaluation,
    champion: Evaluation,
    policy: Policy,
    differences: Iterable[Difference] = (),
) -> tuple[Regression, ...]:
    """Each budget on each slice that it names and that defines the metric for both models.

    Raises:
        InputError: as `checked_floors`, of either model.
    """
    by_place = {(each.metric, each.slice): each for each in differences}
    found: list[Regression] = []
    level = 1 - policy.confidence
    for limit in policy.budget_limits:
        for name in _groups(candidate, limit, "budgets"):
            if is_undefined(candidate, limit.metric, name) or is_undefined(champion, limit.metric, name):
                continue
            ours = measured(candidate, limit.metric, name, "budgets")
            theirs = measured(champion, limit.metric, name, "budgets")
            difference = ours.value - theirs.value
            loss = (-difference if _direction(ours, limit, "budgets") else difference) + ours.bound + theirs.bound
            known = by_place.get((limit.metric, name))
            at_most = None if known is None or known.interval is None else known.surest_loss(level)
            untested = "" if known is None or policy.budget_rule == "proven" else known.why_none
            found.append(
                Regression(
                    metric=limit.metric,
                    slice=name,
                    difference=difference,
                    loss=loss,
                    budget=limit.amount,
                    within=loss <= limit.amount or bool(untested),
                    chance=None if known is None else known.chance(limit.amount),
                    samples=_samples(candidate, limit.metric, name),
                    at_most=at_most,
                    could_rule_out=None if at_most is None else likely_ruled_out(at_most - loss, level),
                    untested=untested,
                )
            )
    if policy.budget_rule == "proven":
        return tuple(replace(one, within=one.at_most is not None and one.at_most <= one.budget) for one in found)
    tested = [one for one in found if one.chance is not None]
    broken = rejected([one.chance for one in tested if one.chance is not None], level)
    within = {id(one): not outside for one, outside in zip(tested, broken, strict=True)}
    return tuple(replace(one, within=within.get(id(one), one.within)) for one in found)


def _samples(evaluation: Evaluation, metric: str, name: str) -> int:
    """How many samples a metric is measured on, where rows say it; else those of the slice."""
    said = None if evaluation.evidence is None else evaluation.evidence.said(metric, name)
    return evaluation.groups[name].num_samples if said is None else len(said.places)


def check_budgets(candidate: Evaluation, policy: Policy) -> None:
    """As `regressions`, of the candidate alone: before a champion is fetched and evaluated."""
    regressions(candidate, candidate, policy)
    unknown = candidate.resampling is None and candidate.evidence is None
    if policy.budget_rule == "proven" and policy.budget_limits and unknown:
        raise InputError(
            f"budget_rule='proven' needs intervals, which {candidate.source} has not got. Evaluate again with "
            "bootstrap=200, or give budget_rule='significant'."
        )


def measured(evaluation: Evaluation, metric: str, name: str, where: str) -> Measured:
    """The value of a metric in a group ("" is the whole test set).

    Raises:
        InputError: it is missing; the message has the closest match or the reason.
    """
    group = evaluation.groups[name]
    if metric in group.metrics:
        return group.metrics[metric]
    on = f" on {name}" if name else ""
    if metric in group.undefined:
        raise InputError(
            f"{where}: {metric}{on} is undefined in {evaluation.source}: {group.undefined[metric]}. Take it out, or "
            "give a test set that defines it."
        )
    raise InputError(f"{where}: {evaluation.source} has no {metric!r}{on}. {_closest(metric, group)}")


def _groups(evaluation: Evaluation, limit: Limit, where: str) -> Iterator[str]:
    """The groups that a limit names."""
    column, equals, value = limit.slice.partition("=")
    every = limit.slice == "*"
    if not every and not (equals and value == "*"):
        if limit.slice not in evaluation.groups:
            raise InputError(f"{where}: {evaluation.source} has no slice {limit.slice!r}. {_slices(evaluation, limit)}")
        yield limit.slice
        return
    found = [name for name in evaluation.groups if name != ALL and (every or name.startswith(f"{column}="))]
    if not found:
        raise InputError(f"{where}: {limit.name!r}, but there is no such slice. {_slices(evaluation, limit)}")
    yield from found


def _direction(value: Measured, limit: Limit, where: str) -> bool:
    if value.higher_is_better is None:
        raise InputError(
            f"{where}: {limit.name!r} cannot be limited: nothing says whether more of it is better. {SAY_IT}"
        )
    return value.higher_is_better


def _closest(metric: str, group: Group) -> str:
    names = [*group.metrics, *group.undefined]
    # Every name may match; but names of single classes would drown the others in the list.
    plain = [name for name in names if "_class_" not in name]
    return did_you_mean(metric, names).partition("Allowed: ")[0] + did_you_mean("", plain or names)


def _slices(evaluation: Evaluation, limit: Limit) -> str:
    names = [name for name in evaluation.groups if name]
    return did_you_mean(limit.slice, names, none="It was evaluated without slices: evaluate with slices='column'.")
