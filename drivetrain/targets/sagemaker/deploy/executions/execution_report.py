"""Report what an execution took: time, billed time, cost, and the savings by spot machines."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drivetrain.base.formatting import duration, share
from drivetrain.deploying.runs import COST, RemoteRun, RemoteStep, Report, Row
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts, JobStep, job_of
from drivetrain.targets.sagemaker.deploy.executions.executions import describe, executions
from drivetrain.targets.sagemaker.deploy.executions.following import starting_point
from drivetrain.targets.sagemaker.document.step_types import step_type
from drivetrain.targets.sagemaker.prices.estimate import money
from drivetrain.targets.sagemaker.prices.table import PriceTable, age_line, current
from drivetrain.targets.sagemaker.refusals import DeniedError

HOUR = 3600
LOOKED_BACK = 20
COLUMNS = ("machines", "billed", COST)


def report(account: Account, execution: RemoteRun, prices: PriceTable | None = None) -> Report:
    """The report of an execution that goes on or has ended.

    Args:
        prices: those of the user, or shipped, unless given.

    Raises:
        UserError: AWS refuses, or a price list that is broken.
    """
    table = current() if prices is None else prices
    used: list[datetime.date] = []
    steps = [_with_job(account, step, table, used) for step in execution.steps]
    costs = _costs(steps)
    more = {**costs, "currency": table.currency, "prices": age_line(min(used)) if used else ""}
    return Report(
        execution=replace(execution, steps=tuple(steps)),
        rows=tuple(_row(step, table.currency) for step in steps),
        columns=COLUMNS,
        total=_total(more),
        more=more,
    )


def _with_job(account: Account, step: RemoteStep, table: PriceTable, used: list[datetime.date]) -> JobStep:
    """The step with its job, and what that cost; `used` gets the dates of the prices."""
    assert isinstance(step, JobStep)
    job = step.job or job_of(account, step)
    if job is not None and job.kind == "Training":
        job = replace(job, starts=_starting_point(account, step))
    return replace(step, job=None if job is None else _priced(job, table, account.region, used))


def _starting_point(account: Account, step: JobStep) -> str:
    try:
        return starting_point(account, step)
    except DeniedError:
        return "its log may not be read"


def _priced(job: JobFacts, table: PriceTable, region: str, used: list[datetime.date]) -> JobFacts:
    if job.instance_type is None or job.count is None or job.billable is None:
        return job
    price = table.hourly(region, job.kind, job.instance_type)
    if price is None:
        return job
    used.append(price.date)
    rate = price.amount * job.count / HOUR
    # A spot machine's hour costs what one on demand costs: the discount is in the billed time.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html
    on_demand = rate * (job.seconds if job.seconds is not None else job.billable)
    return replace(job, cost=rate * job.billable, on_demand_cost=on_demand)


def _costs(steps: Sequence[JobStep]) -> dict[str, Any]:
    """Those of all steps whose cost is known; None where none is.

    The cost is complete where that of every job that has ended is known. Of a step that was tried again the service
    tells only the last job, and of one that failed before it began any no type.
    """
    jobs = [step.job for step in steps if step.job is not None]
    known = [job.cost for job in jobs if job.cost is not None]
    saved = [job.on_demand_cost - job.cost for job in jobs
             if job.spot and job.cost is not None and job.on_demand_cost is not None]  # fmt: skip
    return {
        "billable_seconds": sum((job.billable or 0) * (job.count or 1) for job in jobs),
        "cost": sum(known) if known else None,
        "cost_is_complete": all(
            step.attempts == 1
            and ((step.job and step.job.cost) is not None or not step.type or step_type(step.type).is_free)
            for step in steps
            if step.ended is not None and step.cache_of is None
        ),
        "saved_by_spot": sum(saved) if saved else None,
    }


def _total(costs: Mapping[str, Any]) -> str | None:
    """Describe the cost of the machines in words; None if it is not known."""
    if costs["cost"] is None:
        return None
    least = "" if costs["cost_is_complete"] else "at least "
    said = f"Cost of the machines: {least}{money(costs['cost'], costs['currency'])}"
    if costs["saved_by_spot"] is not None:
        said += f"; spot machines saved {money(costs['saved_by_spot'], costs['currency'])}"
    return f"{said} ({costs['prices']})"


def _row(step: JobStep, currency: str) -> Row:
    job = step.job
    if job is None:
        return Row(step, _json(step), ("", "", ""), _remark(step))
    cells = (
        "" if job.instance_type is None else f"{job.count} x {job.instance_type}",
        "" if job.billable is None else duration(job.billable),
        "" if job.cost is None else money(job.cost, currency),
    )
    return Row(step, _json(step), cells, _remark(step), has_log=True)


def _json(step: JobStep) -> dict[str, Any]:
    job = step.job
    return {
        "step": step.name,
        "type": step.type,
        "status": step.status,
        "unhealthy": step.unhealthy != "",
        "started": step.started,
        "seconds": step.seconds,
        "attempts": step.attempts,
        "cached_from": step.cache_of,
        "reason": step.reason,
        "starts_from": (job and job.starts) or None,
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
        "cost": job and job.cost,
        "on_demand_cost": job and job.on_demand_cost,
    }


def _remark(step: JobStep) -> str:
    job = step.job
    parts = [step.value, step.unhealthy, f"from {step.cache_of}" if step.cache_of else None]
    if job is not None:
        parts += [job.starts, "--fresh" if job.fresh else None]
    if step.attempts > 1:
        parts.append(f"{step.attempts} attempts")
    if job is not None and job.interruptions:
        parts.append(f"interrupted {job.interruptions} times")
    if job is not None and job.saving is not None:
        parts.append(f"spot saved {share(job.saving)}")
    return ", ".join(filter(None, parts))


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
                assert isinstance(step, JobStep)
                name, job = step.body_step or step.name, job_of(account, step)
                if job is None or job.seconds is None:
                    unknown.add(name)
                else:
                    found[name] = found.get(name, 0.0) + job.seconds
            return {name: seconds for name, seconds in found.items() if name not in unknown}
    return {}
