"""`drivetrain executions`: what ran on SageMaker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from drivetrain.pipelines.cli.deployment import Deployed, Region
from drivetrain.pipelines.cli.groups import new_app
from drivetrain.pipelines.cli.options import Config, Json, Set

app = new_app()


@app.command()
def executions(
    target: Deployed,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many.")] = 20,
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
    from drivetrain.pipelines.cli.deployment import account_of
    from drivetrain.pipelines.cli.executed import listed
    from drivetrain.pipelines.cli.terminal import say, say_json
    from drivetrain.pipelines.targets.sagemaker.deploying.executions import executions as find

    account, pipeline = account_of(target, config, set_, region)
    found = find(account, pipeline, limit)
    if as_json:
        say_json([{"execution": each.id, **asdict(each)} for each in found])
    elif found:
        say(listed(found))
    else:
        say(f"Pipeline {pipeline!r} has not been executed yet. Start it: drivetrain start {pipeline}")
