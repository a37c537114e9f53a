"""`drivetrain logs`: the log of a step on SageMaker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from drivetrain.pipelines.cli.deployment import Deployed, ExecutionOption, Region
from drivetrain.pipelines.cli.groups import new_app
from drivetrain.pipelines.cli.options import Config, Set

if TYPE_CHECKING:
    from drivetrain.pipelines.targets.sagemaker.deploying.logs import Line

app = new_app()


@app.command()
def logs(
    target: Deployed,
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="STEP", help="A step; the failed, running or last one unless given.", show_default=False
        ),
    ] = None,
    execution: ExecutionOption = "latest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the step ends.")] = False,
    lines: Annotated[int | None, typer.Option("--lines", "-n", min=0, metavar="N", help="Only the last lines.")] = None,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
) -> None:
    """Print the log of a step on SageMaker, from CloudWatch.

    \b
    Examples:
      drivetrain logs retraining train -c production.yaml --follow
      drivetrain logs nightly --execution 8f3kq2 --region eu-west-1 -n 50
    """
    from drivetrain.pipelines.cli.deployment import account_of
    from drivetrain.pipelines.targets.sagemaker.deploying import executions
    from drivetrain.pipelines.targets.sagemaker.deploying.logs import read_log, step_with_logs

    account, pipeline = account_of(target, config, set_, region)
    found = executions.describe(account, executions.find(account, pipeline, execution))
    hosts: set[str] = set()

    def write(line: Line) -> None:
        hosts.add(line.host)
        sys.stdout.write(f"{line.host}: {line.text}\n" if len(hosts) > 1 else f"{line.text}\n")
        sys.stdout.flush()

    read_log(account, found, step_with_logs(found, step), write, follow=follow, num_lines=lines)
