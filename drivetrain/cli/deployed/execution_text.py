"""An execution on SageMaker for a terminal: its steps, billed time, what spot machines saved, what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.base.formatting import SIGNS, duration, moment, share, status_word
from drivetrain.cli.terminal import paint, table
from drivetrain.report.content.reasons import in_a_line
from drivetrain.targets.sagemaker.prices.lines import money

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drivetrain.targets.sagemaker.deploy.executions.execution_report import Report, StepReport
    from drivetrain.targets.sagemaker.deploy.executions.executions import Execution


def shown(report: Report) -> str:
    """The report of one execution."""
    execution = report.execution
    sign = SIGNS.get(execution.status, "•")
    head = paint(f"{sign} {execution.pipeline} {status_word(execution.status)}", execution.status)
    if execution.started is not None and execution.ended is not None:
        head += f" in {duration(execution.ended - execution.started)}"
    elif execution.started is not None:
        head += f" since {moment(execution.started)}"
    version = "" if execution.version is None else f", version {execution.version}"
    lines = [f"{head}  {paint(execution.id + version, 'dim')}"]
    if execution.reason and execution.status == "Failed":
        lines.append(paint(in_a_line(execution.reason), "Failed"))
    if report.steps:
        rows = [_row(step, report) for step in report.steps]
        styles = [[step.step.shown_status, step.step.shown_status, "", "", "", "", "dim"] for step in report.steps]
        lines += ["", table(("step", "status", "time", "machines", "billed", "cost", ""), rows, styles=styles)]
    lines += _failures(report)
    if report.cost is not None:
        total = f"Cost of the machines: {'' if report.complete else 'at least '}{money(report.cost, report.currency)}"
        if report.saved is not None:
            total += f"; spot machines saved {money(report.saved, report.currency)}"
        lines += ["", f"{total} ({report.prices})"]
    return "\n".join(lines)


def _row(item: StepReport, report: Report) -> list[str]:
    step, job = item.step, item.job
    name = step.shown_status
    machines = "" if job is None or job.instance_type is None else f"{job.count} x {job.instance_type}"
    billed = "" if job is None or job.billable is None else duration(job.billable)
    return [
        f"{SIGNS.get(name, '•')} {step.title}",
        status_word(name),
        "" if step.seconds is None or name == "Cached" else duration(step.seconds),
        machines,
        billed,
        "" if item.cost is None else money(item.cost, report.currency),
        _remark(item),
    ]


def _remark(item: StepReport) -> str:
    step, job = item.step, item.job
    parts = [] if step.value is None else [step.value]
    if step.cached_from:
        parts.append(f"from {step.cached_from}")
    if step.attempts > 1:
        parts.append(f"{step.attempts} attempts")
    if job is not None and job.interruptions:
        parts.append(f"interrupted {job.interruptions} times")
    if job is not None and job.saving is not None:
        parts.append(f"spot saved {share(job.saving)}")
    return ", ".join(parts)


def _failures(report: Report) -> list[str]:
    """Why steps failed, whole: the last column of a table is cut, and this is what a person came for."""
    execution = report.execution
    lines: list[str] = []
    for item in report.steps:
        step = item.step
        if step.reason and step.status in ("Failed", "Stopped"):
            lines += ["", f"{paint(step.title, step.status)}: {in_a_line(step.reason)}"]
            if item.job is not None and step.status == "Failed":
                lines.append(
                    paint(f"Its log: drivetrain logs {execution.pipeline} {step.name} -e {execution.id}", "dim")
                )
    return lines


def listed(executions: Sequence[Execution]) -> str:
    """Executions, one a line."""
    rows = [
        [
            f"{SIGNS.get(each.status, '•')} {each.id}",
            status_word(each.status),
            moment(each.started),
            each.name,
            in_a_line(each.reason or ""),
        ]
        for each in executions
    ]
    styles = [[each.status, each.status, "", "", "dim"] for each in executions]
    return table(("execution", "status", "started", "name", ""), rows, styles=styles)
