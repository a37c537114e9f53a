"""Estimate the cost of an execution of a definition, before it runs.

    print("\\n".join(lines_of(estimate(definition, region="us-east-1"))))

Machines are counted for the time that earlier executions took, where that is given, else for the longest that the step
may run, which is an upper bound. Spot machines are given as a range: SageMaker promises no discount, only "up to 90%",
which shows as fewer billed seconds than the training took, never more.
https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html (BillableTimeInSeconds)
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.formatting import duration
from drivetrain.catalog.instances import has_own_disk
from drivetrain.spec.binding import typed
from drivetrain.targets.sagemaker.document import document
from drivetrain.targets.sagemaker.document.expressions import ParameterScope
from drivetrain.targets.sagemaker.prices.billed import JOB, UNKNOWN_MACHINES, Choice, Machines, machines
from drivetrain.targets.sagemaker.prices.table import REFRESH, Price, PriceTable, age_line, current

SPOT_LEAST, SPOT_MOST = 0.1, 1.0
HOUR = 3600
# A GB-month is billed by the second; AWS counts 730 hours a month (https://calculator.aws).
MONTH = 730 * HOUR

Json = dict[str, Any]
UNKNOWN = "unknown"


@dataclass(frozen=True)
class StepCost:
    """The cost of a step's machines; a heterogeneous cluster and a warm pool are entries of their own."""

    step: str
    instance_type: str | None
    """Several where the service picks one, with ` or ` between; None where only the run will tell."""
    count: int | None
    """Hosts of one job."""
    seconds: float | None
    """How long they are counted for, all of the step's jobs together; None where nothing bounds it."""
    measured: bool
    """True if `seconds` is what earlier executions took; else it is the longest that it may take."""
    on_demand: float | None
    """In the estimate's currency, for all hosts; None where the price or the time is not known."""
    spot: tuple[float, float] | None
    """The least and the most that it costs on spot machines; None where the step runs on demand."""
    storage: float
    """The hosts' volumes; 0 where they have disks of their own, or the price is not known."""
    jobs: int = 1
    what: str = JOB
    branch: tuple[tuple[str, bool], ...] = ()
    """The conditions that the step stands under, from the outside in, and the outcome that leads to it."""

    @property
    def most(self) -> float:
        """The highest cost, as far as it is known."""
        return (self.on_demand or 0.0) + self.storage

    @property
    def least(self) -> float:
        """The same, on spot machines at their best where it runs on them."""
        return (self.spot[0] if self.spot else self.on_demand or 0.0) + self.storage

    def to_json(self) -> Json:
        return {
            "step": self.step,
            "what": self.what,
            "instance_type": self.instance_type,
            "count": self.count,
            "jobs": self.jobs,
            "seconds": self.seconds,
            "measured": self.measured,
            "on_demand": self.on_demand,
            "spot": None if self.spot is None else list(self.spot),
            "storage": self.storage,
            "branch": [list(entry) for entry in self.branch],
        }


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of an execution. Amounts are in `currency`, before tax and discounts, without the free
    tier."""

    steps: tuple[StepCost, ...]
    currency: str
    priced_on: datetime.date | None
    """The day of the oldest price that was used; None where none was."""
    region: str
    notes: tuple[str, ...]

    @property
    def total(self) -> float:
        """At most, of the priced steps: a condition counts its more expensive branch, spot costs as on demand."""
        return _dearest(self.steps, lambda step: step.most)

    @property
    def least(self) -> float:
        """The same, with spot machines at the largest discount."""
        return _dearest(self.steps, lambda step: step.least)

    @property
    def complete(self) -> bool:
        """True if every step that has machines is priced."""
        return all(step.on_demand is not None for step in self.steps)

    def to_json(self) -> Json:
        return {
            "currency": self.currency,
            "region": self.region,
            "priced_on": None if self.priced_on is None else self.priced_on.isoformat(),
            "total": self.total,
            "least": self.least,
            "complete": self.complete,
            "steps": [step.to_json() for step in self.steps],
            "notes": list(self.notes),
        }


def estimate(
    definition: Mapping[str, Any],
    *,
    region: str,
    parameters: Mapping[str, Any] = {},
    seconds: Mapping[str, float] = {},
    prices: PriceTable | None = None,
) -> Estimate:
    """Estimate the cost of one execution of a definition.

    Args:
        definition: as the service keeps it.
        parameters: name -> value at the start; those that are not given have their defaults.
        seconds: step -> how long its machines ran in earlier executions (a training's TrainingTimeInSeconds, not
            what was billed of it), all its jobs together; a step without counts for the longest that it may run. A
            step in the body of a ForEach has its own name there.
        prices: `current()` unless given.

    Raises:
        UserError: no definition; a parameter that it does not have, or of the wrong type; a price list that is broken.
    """
    table = current() if prices is None else prices
    read = document.from_json(dict(definition))
    scope = _start(read, parameters)
    costs: list[StepCost] = []
    notes: list[str] = []
    used: list[Price] = []
    if not table.of_region(region):
        notes.append(
            f"no prices of region {region} are known. {did_you_mean(region, table.regions)} Fetch them: {REFRESH} "
            f"--region {region}"
        )
    for step in read.walk():
        found, said = machines(step, scope)
        notes += said
        for entry in found:
            cost, why = _cost(entry, seconds.get(entry.step), region, table, used)
            costs.append(replace(cost, branch=step.branch))
            if why and (table.of_region(region) or entry.untold):
                notes.append(f"{entry.step}: {why}")
    oldest = min((price.date for price in used), default=None)
    return Estimate(tuple(costs), table.currency, oldest, region, tuple(dict.fromkeys(notes)))


def _cost(
    entry: Machines, measured: float | None, region: str, table: PriceTable, used: list[Price]
) -> tuple[StepCost, str]:
    """The cost of machines, and why it is not known."""
    counted = measured is not None and entry.what == JOB
    seconds = measured if counted else None if entry.max_seconds is None else entry.max_seconds * entry.jobs
    names = [choice.instance_type for choice in entry.choices]
    known = [name for name in names if name is not None]
    cost = StepCost(
        step=entry.step,
        instance_type=" or ".join(dict.fromkeys(known)) if len(known) == len(names) else None,
        count=max((choice.count for choice in entry.choices if choice.count is not None), default=None),
        seconds=seconds,
        measured=counted,
        on_demand=None,
        spot=None,
        storage=0.0,
        jobs=entry.jobs,
        what=entry.what,
    )
    if entry.untold or None in names:
        return cost, entry.untold or UNKNOWN_MACHINES
    if any(choice.count is None for choice in entry.choices):
        return cost, "on how many machines it runs is only known when it runs."
    prices = {name: table.hourly(region, entry.kind, name) for name in known}
    if missing := [name for name, price in prices.items() if price is None]:
        return cost, f"no price of {missing[0]} for a {entry.kind.lower()} job in {region} is known."
    if seconds is None:
        return cost, "nothing bounds how long it runs, and no earlier execution tells."
    found = {name: price for name, price in prices.items() if price is not None}
    used += found.values()
    dearest = max(entry.choices, key=lambda choice: _rate(choice, found))
    on_demand = _rate(dearest, found) * seconds / HOUR
    storage, why = _storage(entry, dearest, seconds, region, table, used)
    spot = (on_demand * SPOT_LEAST, on_demand * SPOT_MOST) if entry.spot else None
    return replace(cost, count=dearest.count, on_demand=on_demand, spot=spot, storage=storage), why


def _rate(choice: Choice, prices: Mapping[str, Price]) -> float:
    """The cost of all hosts of a choice in an hour."""
    return prices[choice.instance_type or ""].amount * (choice.count or 0)


def _storage(
    entry: Machines, choice: Choice, seconds: float, region: str, table: PriceTable, used: list[Price]
) -> tuple[float, str]:
    """The cost of the hosts' volumes, and the reason if it is not known, else empty."""
    if not entry.volume_gb or has_own_disk(choice.instance_type or ""):
        return 0.0, ""
    price = table.storage(region, entry.kind)
    if price is None:
        return 0.0, f"no price of the volumes of a {entry.kind.lower()} job in {region} is known; they are not counted."
    used.append(price)
    return price.amount * entry.volume_gb * (choice.count or 0) * seconds / MONTH, ""


def _dearest(steps: Sequence[StepCost], amount: Callable[[StepCost], float], depth: int = 0) -> float:
    """The sum over the steps that can run together; a condition runs only one branch."""
    total = sum(amount(step) for step in steps if len(step.branch) <= depth)
    branches: dict[str, dict[bool, list[StepCost]]] = {}
    for step in steps:
        if len(step.branch) > depth:
            condition, outcome = step.branch[depth]
            branches.setdefault(condition, {}).setdefault(outcome, []).append(step)
    return total + sum(
        max(_dearest(branch, amount, depth + 1) for branch in outcomes.values()) for outcomes in branches.values()
    )


def _start(definition: document.Definition, given: Mapping[str, Any]) -> ParameterScope:
    """The parameters as `given`, the others by their defaults. A parameter without any value is not known."""
    declared = {parameter.name: parameter for parameter in definition.parameters}
    values = {name: parameter.default for name, parameter in declared.items() if parameter.default is not None}
    for name, value in given.items():
        if name not in declared:
            raise UserError(f"no parameter {name!r}. {did_you_mean(name, declared)}")
        values[name] = typed(declared[name], value)
    return ParameterScope(values)


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
