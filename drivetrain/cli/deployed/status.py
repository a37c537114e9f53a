"""`drivetrain status`: how an execution on SageMaker goes, or went."""

from __future__ import annotations

from typing import Annotated

import typer

from drivetrain.cli.deployed.deployment import Deployed, ExecutionId, Region
from drivetrain.cli.groups import new_app
from drivetrain.cli.options import Config, Json, Set

app = new_app()


@app.command()
def status(
    target: Deployed,
    execution: ExecutionId = "latest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show how it goes, until it ends.")] = False,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Show an execution on SageMaker: steps, billed time, cost.

    Of training jobs on spot machines it says what they saved: billed time against training time.

    \b
    Examples:
      drivetrain status retraining -c production.yaml
      drivetrain status nightly latest --region eu-west-1 --follow
    """
    from drivetrain.cli.deployed.deployment import account_of, follow_to_end
    from drivetrain.cli.deployed.execution_text import shown
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.targets.sagemaker.deploy.executions import executions
    from drivetrain.targets.sagemaker.deploy.executions.execution_report import report

    account, pipeline = account_of(target, config, set_, region)
    arn = executions.find(account, pipeline, execution)
    if follow:
        return follow_to_end(account, arn, as_json=as_json)
    found = report(account, executions.describe(account, arn))
    if as_json:
        say_json(found.to_json())
    else:
        say(shown(found))
    return 0
