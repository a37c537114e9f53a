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
    from drivetrain.targets.sagemaker.written import Written

app = App()

DIFFERENT = 1


@app.command(name="import")
def import_(
    what: Annotated[
        str, Argument(metavar="WHAT", help="A FILE as DescribePipeline gives it, or a deployed pipeline's NAME or ARN.")
    ],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the definition there.")] = None,
    region: Annotated[
        str | None, Option("--region", metavar="REGION", help="The deployed pipeline's region  [default: AWS_REGION]")
    ] = None,
    code: Annotated[
        Path | None,
        Option("--code", metavar="FILE.py", help="Write the pipeline's code there; 1 unless it means the same."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Read any SageMaker definition, and say what it is.

    Nothing of it is lost: fields and step types that are not known here are kept as they are. What the service would
    refuse is said with its path. The file that is written means the same, and the other commands take it. A deployed
    pipeline, also one of another account that shares it, is read from its account, where nothing is changed.

    With --code it becomes Python: jobs as they are, in words of drivetrain.native. The code is compiled, and compared
    with the definition. What has no word is JSON in the code, and listed with the reason.

    \b
    Examples:
      drivetrain import nightly --code nightly.py
      drivetrain import exported.json
      drivetrain import exported.json -o pipeline.json
      drivetrain import nightly --region eu-west-1 -o nightly.json
      drivetrain run -d pipeline.json
    """
    from drivetrain.targets.sagemaker.inspection import inspect

    if code is not None:
        _refuse_code(code)
    definition, arn, again = _read(what, region)
    found = inspect(definition)
    written = None if code is None else _written(definition, code, what)
    status = 0 if written is None or written.is_equal else DIFFERENT
    if output is not None:
        from drivetrain.base.files import write_text
        from drivetrain.targets.sagemaker.document.document import write

        write_text(output, write(definition))
    if as_json:
        deployed = {} if arn is None else {"pipeline_arn": arn}
        coded = {} if written is None else {"code": {"file": str(code), **written.to_json()}}
        say_json({**found.to_json(), **deployed, "file": None if output is None else str(output), **coded})
        return status
    said = found.lines(definition)
    if written is not None:
        said += written.lines(str(code))
    if arn is not None and output is None:
        say("\n".join([*said, f"Write it to a file: {again}"]))
        return status
    if output is not None:
        said.append(f"Wrote {output}.")
    usable = output or what
    say("\n".join([*said, f"Look at it: drivetrain show {usable}", f"Run it here: drivetrain run -d {usable}"]))
    return status


def _refuse_code(path: Path) -> None:
    """Refuse a file that cannot be a pipeline's, or that a person may have edited."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UserError(f"--code {path}: a pipeline's file is imported. Give a name such as nightly.py.")
    if path.exists():
        raise UserError(f"--code {path}: the file is there already. Give another name, or remove it.")


def _written(definition: Definition, path: Path, what: str) -> Written:
    """The definition as code, in a file; the pipeline has the name that it is deployed by, or that of its file."""
    from drivetrain.base.files import write_text
    from drivetrain.operations.operands import name_of
    from drivetrain.targets.sagemaker.written import write_code

    written = write_code(definition, name_of(Path(what.rpartition("/")[2])), path.name)
    write_text(path, written.code)
    return written


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
