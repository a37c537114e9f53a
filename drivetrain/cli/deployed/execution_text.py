"""An execution of a deployed pipeline for a terminal: its steps, and what its target says beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from drivetrain.base.formatting import SIGNS, duration, moment, status_word
from drivetrain.run_store.events import shown_run_status
from drivetrain.run_store.reasons import in_a_line
from drivetrain.telling.terminal import paint, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drivetrain.deploying.runs import RemoteRun, RemoteStep, Report

COST = "cost"
"""What a target calls the column of its table of steps that says what each cost."""


def shown(report: Report, about_runs: Callable[..., str]) -> str:
    """The report of one execution; `about_runs` spells a command that is advised (`Deployer.about_runs`)."""
    execution = report.execution
    unhealthy = any(row.step.unhealthy for row in report.rows)
    status = shown_run_status(execution.status, unhealthy=unhealthy)
    head = paint(f"{SIGNS.get(status, '•')} {execution.pipeline} {status_word(status)}", status)
    if execution.started and execution.ended is not None:
        head += f" in {duration(execution.ended - execution.started)}"
    elif execution.started:
        head += f" since {moment(execution.started)}"
    version = "" if execution.version is None else f", version {execution.version}"
    lines = [f"{head}  {paint(execution.id + version, 'dim')}"]
    if execution.reason and execution.status == "Failed":
        lines.append(paint(in_a_line(execution.reason), "Failed"))
    rows: list[list[str]] = []
    styles: list[list[str]] = []
    for step, _, cells, remark, _ in report.rows:
        rows.append([*_cells(step), *cells, remark])
        styles.append([step.shown_status, step.shown_status, "", *("" for _ in cells), "dim"])
    if rows:
        lines += ["", table(("step", "status", "time", *report.columns, ""), rows, styles=styles)]
    lines += _failures(report, about_runs)
    if report.total is not None:
        lines += ["", report.total]
    return "\n".join(lines)


def compared(reports: Sequence[Report]) -> str:
    """Executions side by side: the time of each step and, where the target tells it, its cost; then what all cost."""
    ids = [report.execution.id for report in reports]
    rows = [
        ["execution", *ids],
        ["status", *(status_word(report.execution.status) for report in reports)],
        ["started", *(moment(report.execution.started or None) for report in reports)],
        ["version", *(str(report.execution.version or "–") for report in reports)],
        ["time", *(_time(report.execution) for report in reports)],
    ]
    each = [_of_steps(report) for report in reports]
    for title in dict.fromkeys(title for steps in each for title in steps):
        rows.append([title, *(steps.get(title, "–") for steps in each)])
    lines = [table(("", *(str(place) for place in range(1, len(ids) + 1))), rows), ""]
    return "\n".join([*lines, *(f"{id}: {cost_of(report)}" for id, report in zip(ids, reports, strict=True))])


def cost_of(report: Report) -> str:
    """The report's last line, or that the cost is not known."""
    return report.total or "Cost: not known."


def _time(run: RemoteRun) -> str:
    if not run.started:
        return "–"
    return f"since {moment(run.started)}" if run.seconds is None else duration(run.seconds)


def _of_steps(report: Report) -> dict[str, str]:
    """Title -> `4 min 10 s, $0.02`; the status of a step that took no time."""
    place = report.columns.index(COST) if COST in report.columns else None
    found: dict[str, str] = {}
    for step, _, cells, *_ in report.rows:
        time = "" if step.seconds is None or step.shown_status == "Cached" else duration(step.seconds)
        cost = "" if place is None else cells[place]
        found[step.title] = ", ".join(filter(None, (time or status_word(step.shown_status), cost)))
    return found


def _cells(step: RemoteStep) -> list[str]:
    name = step.shown_status
    seconds = "" if step.seconds is None or name == "Cached" else duration(step.seconds)
    return [f"{SIGNS.get(name, '•')} {step.title}", status_word(name), seconds]


def _failures(report: Report, about_runs: Callable[..., str]) -> list[str]:
    """Why steps failed, whole: the last column of a table is cut, and this is what a person came for."""
    execution = report.execution
    lines: list[str] = []
    for step, *_, has_log in report.rows:
        if step.reason and step.status in ("Failed", "Stopped"):
            lines += ["", f"{paint(step.title, step.status)}: {in_a_line(step.reason)}"]
            if has_log and step.status == "Failed":
                log = about_runs("logs", execution.pipeline, execution.id, step.name)
                lines.append(paint(f"Its log: {log}", "dim"))
    return lines


def listed(executions: Sequence[RemoteRun]) -> str:
    """Executions, one a line."""
    rows = [
        [
            f"{SIGNS.get(each.status, '•')} {each.id}",
            status_word(each.status),
            moment(each.started or None),
            each.name or "",
            in_a_line(each.reason or ""),
        ]
        for each in executions
    ]
    styles = [[each.status, each.status, "", "", "dim"] for each in executions]
    return table(("execution", "status", "started", "name", ""), rows, styles=styles)
