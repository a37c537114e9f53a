"""The sentences of a decision about budgets."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.decision.formatting import count, number, percent, place
from drivetrain.decision.limits import Regression
from drivetrain.decision.policy import Policy


def about_loss(loss: Regression, policy: Policy) -> str:
    """Why a budget is not kept."""
    where = place(loss.metric, loss.slice)
    if policy.budget_rule == "proven":
        if loss.at_most is None:
            return f"{where} has no interval, so a loss of more than {number(loss.budget)} is not ruled out."
        return (
            f"{where} may be {number(loss.at_most)} worse than the champion's; a loss of more than "
            f"{number(loss.budget)} must be ruled out."
        )
    by_chance = "" if loss.chance is None else f" That much happens by chance in {percent(loss.chance)} of cases."
    worse = f"{where} is {number(loss.loss)} worse than the champion's"
    return f"{worse}; at most {number(loss.budget)} is allowed.{by_chance}"


def about_untested(loss: Regression) -> str:
    """Why a budget is not tested."""
    return f"The budget of {place(loss.metric, loss.slice)} is not tested: {loss.untested}."


def about_few(losses: Sequence[Regression]) -> list[str]:
    """Name the budgets that are smaller than what their samples can show."""
    few = [loss for loss in losses if loss.could_rule_out is not None and loss.could_rule_out > loss.budget]
    if not few:
        return []
    worst = max(few, key=lambda loss: loss.could_rule_out or 0.0)
    others = f" So are {count(len(few) - 1, 'other budget')}." if few[1:] else ""
    return [
        f"The budget of {place(worst.metric, worst.slice)}, {number(worst.budget)}, is smaller than what "
        f"{count(worst.samples, 'sample')} can rule out, {number(worst.could_rule_out or 0.0)}.{others}"
    ]
