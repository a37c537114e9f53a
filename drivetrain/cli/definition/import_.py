"""`drivetrain import`: a definition that was not made here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.document.document import Definition

app = App()


@app.command(name="import")
def import_(
    what: Annotated[
        str, Argument(metavar="WHAT", help="A FILE as DescribePipeline gives it, or a deployed pipeline's NAME or ARN.")
    ],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the definition there.")] = None,
    region: Annotated[
        str | None, Option("--region", metavar="REGION", help="The deployed pipeline's region  [default: AWS_REGION]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read any SageMaker definition, and say what it is.

    Nothing of it is lost: fields and step types that are not known here are kept as they are. What the service would
    refuse is said with its path. The file that is written means the same, and the other commands take it. A deployed
    pipeline, also one of another account that shares it, is read from its account, where nothing is changed.

    \b
    Examples:
      drivetrain import exported.json
      drivetrain import exported.json -o pipeline.json
      drivetrain import nightly --region eu-west-1 -o nightly.json
      drivetrain run -d pipeline.json
    """
    from drivetrain.targets.sagemaker.inspection import inspect

    definition, arn, again = _read(what, region)
    found = inspect(definition)
    if output is not None:
        from drivetrain.base.files import write_text
        from drivetrain.targets.sagemaker.document.document import write

        write_text(output, write(definition))
    if as_json:
        deployed = {} if arn is None else {"pipeline_arn": arn}
        say_json({**found.to_json(), **deployed, "file": None if output is None else str(output)})
        return
    said = found.lines(definition)
    if arn is not None and output is None:
        say("\n".join([*said, f"Write it to a file: {again}"]))
        return
    if output is not None:
        said.append(f"Wrote {output}.")
    usable = output or what
    say("\n".join([*said, f"Look at it: drivetrain show {usable}", f"Run it here: drivetrain run -d {usable}"]))


def _read(what: str, region: str | None) -> tuple[Definition, str | None, str]:
    """The definition; the ARN of a deployed one, and the command that writes it to a file."""
    from drivetrain.operations.operands import definition_file
    from drivetrain.targets.sagemaker.deploy.listing import fetch, is_name

    if not is_name(what) or (region is None and Path(what).is_file()):
        if region is not None:
            raise UserError(f"--region is of a deployed pipeline, and {what} is no name of one. Give one of both.")
        return definition_file(Path(what)), None, ""
    from drivetrain.targets.sagemaker.document.document import read

    there, where = fetch(what, region)
    definition = read(there.text, f"pipeline {there.name!r} in {where}")
    return definition, there.arn, f"drivetrain import {what} --region {where} -o {there.name}.json"
