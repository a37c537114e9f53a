"""`drivetrain runs list|show|compare|logs --on TARGET`: the runs of a deployed pipeline, as a terminal shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from drivetrain.base.errors import FAILED, INTERRUPTED, UserError
from drivetrain.base.formatting import SIGNS, duration, moment, status_word
from drivetrain.base.masking import without_secrets
from drivetrain.cli.runs.logs import LinePrinter
from drivetrain.deploying.runs import COST
from drivetrain.operations.running import new_progress
from drivetrain.run_store.events import shown_run_status
from drivetrain.run_store.reasons import in_a_line
from drivetrain.telling.terminal import paint, say, say_json, table

if TYPE_CHECKING:
    from drivetrain.deploying.runs import RemoteRun, RemoteStep, Report
    from drivetrain.targets.deployer import Deployer, Handle


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


def print_list(deployer: Deployer, pipeline: str, limit: int, *, as_json: bool) -> None:
    """Print the newest executions, without their steps.

    Raises:
        UserError: there is no such pipeline, or the target refuses.
    """
    found = deployer.executions(pipeline, limit)
    if as_json:
        say_json([each.summary() for each in found])
    elif found:
        say(listed(found))
    else:
        again = f"drivetrain start {deployer.again(pipeline)}"
        say(f"Pipeline {pipeline!r} has not been executed yet. Start it: {again}")


def show(deployer: Deployer, pipeline: str, execution: str, *, follow: bool, as_json: bool) -> int:
    """Print the report of an execution, with `follow` once it has ended; gives the exit code.

    Raises:
        UserError: there is no such execution, or the target refuses.
    """
    handle = deployer.find(pipeline, execution)
    if follow:
        return follow_to_end(deployer, handle, as_json=as_json)
    found = deployer.report(handle)
    if as_json:
        say_json(found.to_json())
    else:
        say(shown(found, deployer.about_runs))
    return 0


def compare(deployer: Deployer, pipeline: str, executions: Sequence[str], *, as_json: bool) -> None:
    """Print time and, where known, cost of executions side by side.

    Raises:
        UserError: one is not there or given twice, or there is nothing to compare with.
    """
    if len(executions) < 2:
        raise UserError("One execution has nothing to be compared with. Give two or more, such as: latest~1 latest")
    handles = [deployer.find(pipeline, each) for each in executions]
    ids = [handle.id for handle in handles]
    if twice := next((id for place, id in enumerate(ids) if id in ids[:place]), None):
        raise UserError(f"Execution {twice} is given twice. Give different ones.")
    reports = [deployer.report(handle) for handle in handles]
    if as_json:
        say_json([report.to_json() for report in reports])
    else:
        say(compared(reports))


def follow_to_end(deployer: Deployer, handle: Handle, *, as_json: bool) -> int:
    """Show an execution until it ends, then its report; gives the exit code of a local run that ended so."""
    with new_progress(as_json=as_json) as progress:
        found = deployer.follow(handle, progress)
    if as_json:
        say(json.dumps({"event": "summary", **found.to_json()}, ensure_ascii=False))  # a line as the events before it
    else:
        say("\n" + shown(found, deployer.about_runs))
    if found.execution.status == "Stopped":
        return INTERRUPTED
    return 0 if found.execution.status in ("Succeeded", "CompletedWithFailures") else FAILED


def print_log(
    deployer: Deployer,
    pipeline: str,
    execution: str,
    step: str | None,
    *,
    follow: bool,
    num_lines: int | None,
    as_json: bool,
) -> None:
    """Print the log of a step; with `follow`, go on until it ends.

    Raises:
        UserError: no such execution or step, or one without a log.
    """
    printed = LinePrinter(as_json=as_json)
    deployer.read_log(
        deployer.find(pipeline, execution),
        step,
        lambda line: printed(line.host, without_secrets(line.text)),
        follow=follow,
        num_lines=num_lines,
    )
