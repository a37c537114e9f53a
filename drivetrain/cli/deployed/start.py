"""`drivetrain start`: execute a deployed pipeline."""

from __future__ import annotations

from typing import Annotated

from drivetrain.cli import options
from drivetrain.cli.declared import App, Option
from drivetrain.cli.deployed.deployment import Deployed
from drivetrain.cli.options import Config, Json, Region, Set
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import say, say_json

app = App()


@app.command()
def start(
    target: Deployed,
    param: Annotated[
        list[str] | None,
        Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the pipeline. Repeatable."),
    ] = None,
    select: Annotated[
        list[str] | None,
        Option("--select", metavar="STEP,...", help="Run these steps only; take the rest from an earlier execution."),
    ] = None,
    source: Annotated[
        str | None,
        Option("--from", metavar="ID", help="The execution whose results the other steps keep  [default: the latest]"),
    ] = None,
    parallel: Annotated[int | None, Option("--parallel", min=1, metavar="N", help="Steps at a time.")] = None,
    version: Annotated[
        int | None, Option("--version", min=1, metavar="N", help="Start this version of the pipeline.")
    ] = None,
    alias: Annotated[
        str | None, Option("--alias", metavar="NAME", help="Start the version that has this alias.")
    ] = None,
    name: Annotated[str | None, Option("--name", metavar="NAME", help="A name for the execution.")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Use nothing of earlier ones: no result, no checkpoint.")] = False,
    follow: Annotated[bool, Option("--follow", "-f", help="Show how it goes, until it ends.")] = False,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Start a deployed pipeline where it is deployed.

    \b
    Examples:
      drivetrain start retraining -c production.yaml --follow
      drivetrain start nightly --region eu-west-1 --param MinAccuracy=0.98
      drivetrain start nightly --select evaluate,compare --from latest
      drivetrain start nightly --fresh
    """
    from drivetrain.cli.runs.deployed import follow_to_end
    from drivetrain.operations.deployment import deployer_of, refuse_in_vain
    from drivetrain.targets.deployer import StartRequest

    parameters = options.pairs("--param", param, "NAME=VALUE, such as MinAccuracy=0.98")
    selected = options.selected(select, source)
    refuse_in_vain(target, config, set_ or (), parameter="--param NAME=VALUE")
    deployer, pipeline = deployer_of(target, config, set_, region, on)
    handle = deployer.start(
        pipeline,
        StartRequest(
            parameters=parameters,
            select=selected,
            source=source,
            parallel=parallel,
            version=version,
            alias=alias,
            name=name,
            fresh=fresh,
        ),
    )
    if follow:
        return follow_to_end(deployer, handle, as_json=as_json)
    if as_json:
        say_json(handle.to_json())
    else:
        say(f"Started {handle.id} ({handle.address})")
        say(f"See how it goes: {deployer.about_runs('show', pipeline)} --follow")
    return 0
