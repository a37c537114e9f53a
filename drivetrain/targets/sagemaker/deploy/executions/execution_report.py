"""What an execution took: time, billed time, what spot machines saved, what it cost."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.base.formatting import duration, share
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts, job_of
from drivetrain.targets.sagemaker.deploy.executions.executions import Execution, StepRun, describe, executions
from drivetrain.targets.sagemaker.deploy.executions.logs import starting_point
from drivetrain.targets.sagemaker.document.step_types import step_type
from drivetrain.targets.sagemaker.prices.lines import money
from drivetrain.targets.sagemaker.prices.table import PriceTable, age_line, current
from drivetrain.targets.sagemaker.refusals import DeniedError

HOUR = 3600
LOOKED_BACK = 20


@dataclass(frozen=True)
class StepReport:
    """A step and its job."""

    step: StepRun
    job: JobFacts | None = None
    cost: float | None = None
    """Of the billed machine time, volumes aside; None where the price or the time is not known."""
    on_demand_cost: float | None = None
    """What it would have cost on demand."""
    starts_from: str = ""
    """What a training says that it starts from; or that its log, where it does, may not be read."""

    @property
    def unhealthy(self) -> bool:
        """Whether a health rule failed its model: `train` logs healthy=0 then, which is a metric of its job."""
        return self.step.status == "Succeeded" and self.job is not None and self.job.metrics.get("healthy") == 0

    def to_json(self) -> dict[str, Any]:
        step, job = self.step, self.job
        return {
            "step": step.name,
            "type": step.type,
            "status": step.shown_status,
            "unhealthy": self.unhealthy,
            "started": step.started,
            "seconds": step.seconds,
            "attempts": step.attempts,
            "cached_from": step.cached_from,
            "reason": step.reason,
            "starts_from": self.starts_from or None,
            "job": None
            if job is None
            else {
                "name": job.name,
                "instance_type": job.instance_type,
                "count": job.count,
                "seconds": job.seconds,
                "billable_seconds": job.billable,
                "spot": job.spot,
                "interruptions": job.interruptions,
                "saving": job.saving,
                "metrics": dict(job.metrics),
                "fresh": job.fresh,
            },
            "cost": self.cost,
            "on_demand_cost": self.on_demand_cost,
        }


@dataclass(frozen=True)
class Report:
    """An execution with its steps' jobs and costs."""

    execution: Execution
    steps: tuple[StepReport, ...]
    currency: str
    prices: str
    """Of which day the oldest of the prices is, in words; empty where none was used."""

    @property
    def cost(self) -> float | None:
        """Of all steps whose cost is known; None where none is."""
        known = [step.cost for step in self.steps if step.cost is not None]
        return sum(known) if known else None

    @property
    def complete(self) -> bool:
        """Whether the cost of every job that has ended is known. Of a step that was tried again the service tells only
        the last job, and of one that failed before it began any no type."""
        return all(
            step.step.attempts == 1
            and (step.cost is not None or not step.step.type or step_type(step.step.type).is_free)
            for step in self.steps
            if step.step.ended is not None and step.step.cached_from is None
        )

    @property
    def billable(self) -> float:
        """Billed seconds of all hosts together."""
        return sum((step.job.billable or 0) * (step.job.count or 1) for step in self.steps if step.job is not None)

    @property
    def saved(self) -> float | None:
        """What spot machines saved, in the currency; None where none ran or prices are not known."""
        saved = [
            step.on_demand_cost - step.cost
            for step in self.steps
            if step.job is not None and step.job.spot and step.cost is not None and step.on_demand_cost is not None
        ]
        return sum(saved) if saved else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the table of steps that only this target has."""
        return ("machines", "billed", "cost")

    def rows(self) -> Iterator[tuple[StepRun, tuple[str, ...], str, bool]]:
        """Each step with the cells of `columns`, a remark, and whether it has a log."""
        for item in self.steps:
            job = item.job
            cells = (
                "" if job is None or job.instance_type is None else f"{job.count} x {job.instance_type}",
                "" if job is None or job.billable is None else duration(job.billable),
                "" if item.cost is None else money(item.cost, self.currency),
            )
            step = replace(item.step, status="Unhealthy") if item.unhealthy else item.step
            yield step, cells, _remark(item), job is not None

    def total(self) -> str | None:
        """What the machines cost; None where that is not known."""
        if self.cost is None:
            return None
        said = f"Cost of the machines: {'' if self.complete else 'at least '}{money(self.cost, self.currency)}"
        if self.saved is not None:
            said += f"; spot machines saved {money(self.saved, self.currency)}"
        return f"{said} ({self.prices})"

    def to_json(self) -> dict[str, Any]:
        execution = self.execution
        return {
            "execution": execution.id,
            "arn": execution.arn,
            "pipeline": execution.pipeline,
            "name": execution.name,
            "version": execution.version,
            "status": execution.status,
            "reason": execution.reason,
            "started": execution.started,
            "ended": execution.ended,
            "steps": [step.to_json() for step in self.steps],
            "billable_seconds": self.billable,
            "cost": self.cost,
            "cost_is_complete": self.complete,
            "saved_by_spot": self.saved,
            "currency": self.currency,
            "prices": self.prices,
        }


def _remark(item: StepReport) -> str:
    step, job = item.step, item.job
    parts = [] if step.value is None else [step.value]
    if item.unhealthy:
        parts.append("a health rule failed its model: its log says which, and what to do")
    if step.cached_from:
        parts.append(f"from {step.cached_from}")
    if item.starts_from:
        parts.append(item.starts_from)
    if job is not None and job.fresh:
        parts.append("--fresh")
    if step.attempts > 1:
        parts.append(f"{step.attempts} attempts")
    if job is not None and job.interruptions:
        parts.append(f"interrupted {job.interruptions} times")
    if job is not None and job.saving is not None:
        parts.append(f"spot saved {share(job.saving)}")
    return ", ".join(parts)


def report(account: Account, execution: Execution, prices: PriceTable | None = None) -> Report:
    """The report of an execution that goes on or has ended.

    Args:
        prices: those of the user, or shipped, unless given.

    Raises:
        UserError: AWS refuses, or a price list that is broken.
    """
    table = current() if prices is None else prices
    used: list[datetime.date] = []
    steps: list[StepReport] = []
    for step in execution.steps:
        # What was taken over was paid for by the execution that ran it.
        job = None if step.cached_from else job_of(account, step)
        starts = _starting_point(account, step) if job is not None and job.kind == "Training" else ""
        steps.append(replace(_priced(step, job, table, account.region, used), starts_from=starts))
    return Report(execution, tuple(steps), table.currency, age_line(min(used)) if used else "")


def _starting_point(account: Account, step: StepRun) -> str:
    try:
        return starting_point(account, step)
    except DeniedError:
        return "its log may not be read"


def _priced(
    step: StepRun, job: JobFacts | None, table: PriceTable, region: str, used: list[datetime.date]
) -> StepReport:
    if job is None or job.instance_type is None or job.count is None or job.billable is None:
        return StepReport(step, job)
    price = table.hourly(region, job.kind, job.instance_type)
    if price is None:
        return StepReport(step, job)
    used.append(price.date)
    rate = price.amount * job.count / HOUR
    # A spot machine's hour costs what one on demand costs: the discount is in the billed time.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html
    return StepReport(step, job, rate * job.billable, rate * (job.seconds if job.seconds is not None else job.billable))


def measured_seconds(account: Account, pipeline: str) -> Mapping[str, float]:
    """Step -> how long its machines ran in the latest execution that succeeded, for an estimate of the next one.

    A step that was taken from the cache there is left out: it ran no machine. One in the body of a ForEach has its name
    there, and the time of all its iterations together.

    Raises:
        ServiceError: AWS refuses.
    """
    for execution in executions(account, pipeline, LOOKED_BACK):
        if execution.status == "Succeeded":
            found: dict[str, float] = {}
            unknown: set[str] = set()  # without the time of one iteration the others' are no measure of all
            for step in describe(account, execution.arn).steps:
                name, job = step.body_step or step.name, None if step.cached_from else job_of(account, step)
                if job is None or job.seconds is None:
                    unknown.add(name)
                else:
                    found[name] = found.get(name, 0.0) + job.seconds
            return {name: seconds for name, seconds in found.items() if name not in unknown}
    return {}
