"""`drivetrain logs`: the log of a step of a deployed pipeline, or of the latest local run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.deployed.deployment import ExecutionOption, Region
from drivetrain.cli.options import Config, JsonLines, Set
from drivetrain.cli.options import Target as On

if TYPE_CHECKING:
    from drivetrain.targets.deployer import LogLine

app = App()

LATEST = "latest"


@app.command()
def logs(
    target: Annotated[
        str,
        Argument(
            metavar="PIPELINE",
            help="The name of a deployed pipeline, or FILE.py[:FUNCTION]; `latest` is the latest local run.",
            show_default=False,
        ),
    ],
    step: Annotated[
        str | None,
        Argument(metavar="STEP", help="A step; the failed, running or last one unless given.", show_default=False),
    ] = None,
    execution: ExecutionOption = LATEST,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the step ends.")] = False,
    lines: Annotated[int | None, Option("--lines", "-n", min=0, metavar="N", help="Only the last lines.")] = None,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    region: Region = None,
    as_json: JsonLines = False,
) -> None:
    """Print the log of a step of a deployed pipeline.

    With `latest` it is that of the latest local run; `drivetrain runs logs` has more choices for local runs.

    \b
    Examples:
      drivetrain logs retraining train -c production.yaml --follow
      drivetrain logs latest train
      drivetrain logs nightly --execution latest --region eu-west-1 -n 50
    """
    if target == LATEST and execution == LATEST and region is config is on is None and not set_:
        from drivetrain.cli import local_home
        from drivetrain.cli.runs.logs import print_logs
        from drivetrain.targets.local.ledger.reader import Ledger

        with Ledger(local_home(None)) as ledger:
            print_logs(ledger, LATEST, step, attempt=None, follow=follow, num_lines=lines, as_json=as_json)
        return
    from drivetrain.base.masking import without_secrets
    from drivetrain.cli.deployed.deployment import deployer_of
    from drivetrain.cli.runs.logs import LinePrinter

    deployer, pipeline = deployer_of(target, config, set_, region, on)
    handle = deployer.find(pipeline, execution)
    printed = LinePrinter(as_json=as_json)

    def write(line: LogLine) -> None:
        printed(line.host, without_secrets(line.text))

    deployer.read_log(handle, step, write, follow=follow, num_lines=lines)
