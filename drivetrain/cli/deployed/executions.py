"""`drivetrain executions`: what ran on SageMaker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from drivetrain.cli.deployed.deployment import Deployed, Region
from drivetrain.cli.groups import new_app
from drivetrain.cli.options import Config, Json, Set

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.deploy.executions.executions import Execution

app = new_app()


@app.command()
def executions(
    target: Deployed,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, metavar="N", help="How many.")] = 20,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> None:
    """List the executions of a deployed pipeline, the newest first.

    \b
    Examples:
      drivetrain executions retraining -c production.yaml
      drivetrain executions nightly --region eu-west-1 -n 5 --json
    """
    from drivetrain.cli.deployed.deployment import account_of
    from drivetrain.cli.deployed.execution_text import listed
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.targets.sagemaker.deploy.executions.executions import executions as find

    account, pipeline = account_of(target, config, set_, region)
    found = find(account, pipeline, limit)
    if as_json:
        say_json([_said(each) for each in found])
    elif found:
        say(listed(found))
    else:
        again = f"drivetrain start {pipeline} --region {account.region}"
        say(f"Pipeline {pipeline!r} has not been executed yet. Start it: {again}")


def _said(each: Execution) -> dict[str, Any]:
    """What the list of executions tells of one; the rest is known of a single one."""
    return {
        "execution": each.id,
        "arn": each.arn,
        "pipeline": each.pipeline,
        "name": each.name,
        "status": each.status,
        "started": each.started,
        "reason": each.reason,
    }
