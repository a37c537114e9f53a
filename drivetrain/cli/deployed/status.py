"""`drivetrain status`: how an execution of a deployed pipeline goes, or went."""

from __future__ import annotations

from typing import Annotated

from drivetrain.cli.declared import App, Option
from drivetrain.cli.deployed.deployment import Deployed, ExecutionId, Region
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On

app = App()


@app.command()
def status(
    target: Deployed,
    execution: ExecutionId = "latest",
    follow: Annotated[bool, Option("--follow", "-f", help="Show how it goes, until it ends.")] = False,
    compare: Annotated[
        list[str] | None,
        Option("--compare", metavar="ID", help="Show time and cost beside those of another; may be repeated."),
    ] = None,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Show an execution: steps, time and, where known, cost.

    Of training jobs on spot machines it says what they saved: billed time against training time.

    \b
    Examples:
      drivetrain status retraining -c production.yaml
      drivetrain status nightly latest --region eu-west-1 --follow
      drivetrain status nightly latest --compare 8f3kq2 -c production.yaml
    """
    from drivetrain.base.errors import UserError
    from drivetrain.cli.deployed.deployment import deployer_of, follow_to_end
    from drivetrain.cli.deployed.execution_text import compared, shown
    from drivetrain.cli.terminal import say, say_json

    deployer, pipeline = deployer_of(target, config, set_, region, on)
    handle = deployer.find(pipeline, execution)
    if compare:
        if follow:
            raise UserError("--follow and --compare do not go together. Give one of them.")
        handles = [handle, *(deployer.find(pipeline, other) for other in compare)]
        if twice := [one.id for place, one in enumerate(handles) if one.id in {each.id for each in handles[:place]}]:
            raise UserError(f"Execution {twice[0]} is given twice. Give different ones.")
        reports = [deployer.report(one) for one in handles]
        if as_json:
            say_json([report.to_json() for report in reports])
        else:
            say(compared(reports))
        return 0
    if follow:
        return follow_to_end(deployer, handle, as_json=as_json)
    found = deployer.report(handle)
    if as_json:
        say_json(found.to_json())
    else:
        say(shown(found, deployer.again))
    return 0
