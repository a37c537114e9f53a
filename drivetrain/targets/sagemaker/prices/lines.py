"""An estimate in words: a line a step, the total, the age of the prices, and what could not be told."""

from __future__ import annotations

import datetime

from drivetrain.base.formatting import duration
from drivetrain.targets.sagemaker.prices.estimate import Estimate, StepCost
from drivetrain.targets.sagemaker.prices.table import age_line

UNKNOWN = "unknown"


def lines_of(estimate: Estimate, today: datetime.date | None = None) -> list[str]:
    """The estimate for people; `today` is what the age of the prices is counted to."""
    rows = [(_name(step), _machines(step), _time(step), _amount(step, estimate.currency)) for step in estimate.steps]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])) for row in rows
    ]
    lines += [_total(estimate)]
    lines += [age_line(estimate.priced_on, today)] if estimate.priced_on else []
    return lines + list(estimate.notes)


def money(amount: float, currency: str) -> str:
    """`$12.34`, `under $0.01`, `CNY 12.34`."""
    sign = "$" if currency == "USD" else f"{currency} "
    if 0 < amount < 0.005:
        return f"under {sign}0.01"
    return f"{sign}{amount:,.2f}"


def _name(step: StepCost) -> str:
    branch = "".join(
        f" (if {condition} is {'true' if outcome else 'false'})" for condition, outcome in step.branch[-1:]
    )
    return f"{step.step}{'' if step.what == 'job' else f', {step.what}'}{branch}"


def _machines(step: StepCost) -> str:
    hosts = f"{UNKNOWN if step.count is None else step.count} x {step.instance_type or UNKNOWN}"
    return hosts if step.jobs == 1 else f"{step.jobs} jobs of {hosts}"


def _time(step: StepCost) -> str:
    if step.seconds is None:
        return UNKNOWN
    return f"{'as before' if step.measured else 'at most'} {duration(step.seconds)}"


def _amount(step: StepCost, currency: str) -> str:
    if step.on_demand is None:
        return UNKNOWN
    volumes = f", volumes {money(step.storage, currency)}" if step.storage else ""
    if step.spot is None:
        return money(step.on_demand, currency) + volumes
    least, most = (money(amount, currency) for amount in step.spot)
    return f"{least} to {most} on spot machines{volumes}"


def _total(estimate: Estimate) -> str:
    if not estimate.steps:
        return "total: nothing, no step has machines"
    bound = "as before" if all(step.measured for step in estimate.steps) else "at most"
    priced = [step for step in estimate.steps if step.on_demand is not None]
    if not priced:
        return f"total: {UNKNOWN}"
    total = f"total {bound} {money(estimate.total, estimate.currency)}"
    if any(step.spot for step in priced):
        total += f", with spot machines at their cheapest {money(estimate.least, estimate.currency)}"
    missing = len(estimate.steps) - len(priced)
    return total + (f", without {missing} of {len(estimate.steps)} entries whose cost is unknown" if missing else "")
