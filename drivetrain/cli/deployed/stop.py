"""`drivetrain stop`: end an execution on SageMaker."""

from __future__ import annotations

from drivetrain.cli.deployed.deployment import Deployed, ExecutionId, Region
from drivetrain.cli.groups import new_app
from drivetrain.cli.options import Config, Json, Set

app = new_app()


@app.command()
def stop(
    target: Deployed,
    execution: ExecutionId = "latest",
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> None:
    """Stop an execution on SageMaker.

    Its jobs are asked to end; a training saves a checkpoint first, from which a later execution goes on.

    \b
    Examples:
      drivetrain stop retraining -c production.yaml
      drivetrain stop nightly latest --region eu-west-1
    """
    from drivetrain.cli.deployed.deployment import account_of
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.targets.sagemaker.deploy.executions import executions

    account, pipeline = account_of(target, config, set_, region)
    arn = executions.find(account, pipeline, execution)
    executions.stop(account, arn)
    id = arn.rpartition("/")[2]
    if as_json:
        say_json({"execution": id, "arn": arn})
    else:
        say(f"Stopping {id}. See how it ends: drivetrain status {pipeline} {id} --region {account.region}")
