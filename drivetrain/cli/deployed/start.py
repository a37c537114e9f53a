"""`drivetrain start`: execute a deployed pipeline."""

from __future__ import annotations

from typing import Annotated

import typer

from drivetrain.cli.deployed.deployment import Deployed, Region
from drivetrain.cli.groups import new_app
from drivetrain.cli.options import Config, Json, Set

app = new_app()


@app.command()
def start(
    target: Deployed,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the pipeline. Repeatable."),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="STEP,...", help="Run these steps only, the rest is an earlier execution's."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="ID", help="Whose results stand for the other steps  [default: the latest]"),
    ] = None,
    parallel: Annotated[int | None, typer.Option("--parallel", min=1, metavar="N", help="Steps at a time.")] = None,
    version: Annotated[int | None, typer.Option("--version", min=1, metavar="N", help="A version of it.")] = None,
    alias: Annotated[str | None, typer.Option("--alias", metavar="NAME", help="The version of that alias.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What the execution is called.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show how it goes, until it ends.")] = False,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Start a deployed pipeline on SageMaker.

    \b
    Examples:
      drivetrain start retraining -c production.yaml --follow
      drivetrain start nightly --region eu-west-1 --param MinAccuracy=0.98
      drivetrain start nightly --select evaluate,compare --from latest
    """
    from drivetrain.cli.deployed.deployment import account_of, follow_to_end
    from drivetrain.cli.local import run_options
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.targets.sagemaker.deploy.executions import executions

    parameters = run_options.pairs("--param", param, "NAME=VALUE, such as MinAccuracy=0.98")
    selected = run_options.selected(select, source)
    account, pipeline = account_of(target, config, set_, region)
    arn = executions.start(
        account,
        pipeline,
        parameters=parameters,
        select=selected,
        source=None if source is None else executions.find(account, pipeline, source),
        parallel=parallel,
        version=version,
        alias=alias,
        name=name,
    )
    if follow:
        return follow_to_end(account, arn, as_json=as_json)
    if as_json:
        say_json({"execution": arn.rpartition("/")[2], "arn": arn})
    else:
        say(f"Started {arn.rpartition('/')[2]} ({arn})")
        say(f"See how it goes: drivetrain status {pipeline} --region {account.region} --follow")
    return 0
