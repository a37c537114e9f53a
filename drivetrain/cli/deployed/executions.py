"""`drivetrain executions`: what ran where a pipeline is deployed."""

from __future__ import annotations

from typing import Annotated

from drivetrain.cli.declared import App, Option
from drivetrain.cli.deployed.deployment import Deployed, Region
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On

app = App()


@app.command()
def executions(
    target: Deployed,
    limit: Annotated[int, Option("--limit", "-n", min=1, max=100_000, metavar="N", help="How many.")] = 20,
    on: On = None,
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
    from drivetrain.cli.deployed.deployment import deployer_of
    from drivetrain.cli.deployed.execution_text import listed
    from drivetrain.cli.terminal import say, say_json

    deployer, pipeline = deployer_of(target, config, set_, region, on)
    found = deployer.executions(pipeline, limit)
    if as_json:
        say_json([each.summary() for each in found])
    elif found:
        say(listed(found))
    else:
        again = f"drivetrain start {deployer.again(pipeline)}"
        say(f"Pipeline {pipeline!r} has not been executed yet. Start it: {again}")
