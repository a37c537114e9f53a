"""`drivetrain runs list|show|compare|logs|stop --on TARGET`: the runs of a deployed pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.deploying.following import LogLine
    from drivetrain.targets.deployer import Deployer


def print_list(deployer: Deployer, pipeline: str, limit: int, *, as_json: bool) -> None:
    """Print the newest executions, without their steps.

    Raises:
        UserError: there is no such pipeline, or the target refuses.
    """
    from drivetrain.cli.deployed.execution_text import listed

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
    from drivetrain.cli.deployed.deployment import follow_to_end
    from drivetrain.cli.deployed.execution_text import shown

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
    from drivetrain.cli.deployed.execution_text import compared

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
    from drivetrain.base.masking import without_secrets
    from drivetrain.cli.runs.logs import LinePrinter

    printed = LinePrinter(as_json=as_json)

    def write(line: LogLine) -> None:
        printed(line.host, without_secrets(line.text))

    handle = deployer.find(pipeline, execution)
    deployer.read_log(handle, step, write, follow=follow, num_lines=num_lines)


def stop(deployer: Deployer, pipeline: str, execution: str, *, as_json: bool) -> None:
    """Ask an execution to end.

    Raises:
        UserError: there is none, or it has ended.
    """
    handle = deployer.find(pipeline, execution)
    deployer.stop(handle)
    if as_json:
        say_json(handle.to_json())
    else:
        say(f"Stopping {handle.id}. See how it ends: {deployer.about_runs('show', pipeline, handle.id)} --follow")
