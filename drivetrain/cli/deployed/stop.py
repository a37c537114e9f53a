"""`drivetrain stop`: end an execution of a deployed pipeline."""

from __future__ import annotations

from drivetrain.cli.declared import App
from drivetrain.cli.deployed.deployment import Deployed, ExecutionId, Region
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On

app = App()


@app.command()
def stop(
    target: Deployed,
    execution: ExecutionId = "latest",
    on: On = None,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> None:
    """Stop an execution of a deployed pipeline.

    Its jobs are asked to end; a training saves a checkpoint first, from which a later execution goes on.

    \b
    Examples:
      drivetrain stop retraining -c production.yaml
      drivetrain stop nightly latest --region eu-west-1
    """
    from drivetrain.cli.deployed.deployment import deployer_of
    from drivetrain.cli.terminal import say, say_json

    deployer, pipeline = deployer_of(target, config, set_, region, on)
    handle = deployer.find(pipeline, execution)
    deployer.stop(handle)
    if as_json:
        say_json(handle.to_json())
    else:
        say(f"Stopping {handle.id}. See how it ends: drivetrain status {deployer.again(pipeline, handle.id)}")
