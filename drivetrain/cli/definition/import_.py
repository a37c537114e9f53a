"""`drivetrain import`: a definition that was not made here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.document.document import Definition
    from drivetrain.targets.sagemaker.states.machine import Translated
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

    A state machine of Step Functions, a file or an ARN, becomes a definition: its SageMaker tasks, functions, choices,
    parallel branches and maps. The rest is named; the command ends with 1 if a state or a value is left out.

    \b
    Examples:
      drivetrain import nightly --code nightly.py
      drivetrain import machine.asl.json --code machine.py
      drivetrain import exported.json
      drivetrain import exported.json -o pipeline.json
      drivetrain import nightly --region eu-west-1 -o nightly.json
      drivetrain run -d pipeline.json
    """
    from drivetrain.targets.sagemaker.inspection import inspect

    if code is not None:
        _refuse_code(code)
    definition, arn, again, machine = _read(what, region)
    found = inspect(definition)
    written = None if code is None else _written(definition, code, what)
    is_whole = machine is None or not machine.lost
    status = 0 if is_whole and (written is None or written.is_equal) else DIFFERENT
    if output is not None:
        from drivetrain.base.files import write_text
        from drivetrain.targets.sagemaker.document.document import write

        write_text(output, write(definition))
    if as_json:
        deployed = {} if arn is None else {"pipeline_arn": arn}
        coded = {} if written is None else {"code": {"file": str(code), **written.to_json()}}
        states = {} if machine is None else {"lost": list(machine.lost), "notes": list(machine.notes)}
        say_json({**found.to_json(), **deployed, **states, "file": None if output is None else str(output), **coded})
        return status
    said = found.lines(definition) + ([] if machine is None else machine.lines())
    if written is not None:
        said += written.lines(str(code))
    if again and output is None:
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
    from drivetrain.targets.sagemaker.written import write_code

    written = write_code(definition, _name(what), path.name)
    write_text(path, written.code)
    return written


def _name(what: str) -> str:
    from drivetrain.operations.operands import name_of

    return name_of(Path(re.split("[/:]", what)[-1].replace(".asl.", ".")))


def _read(what: str, region: str | None) -> tuple[Definition, str | None, str, Translated | None]:
    """The definition; the ARN of a deployed one, and the command that writes it to a file; what came of a machine."""
    from drivetrain.base.json_text import parse
    from drivetrain.operations.operands import definition_text
    from drivetrain.targets.sagemaker.deploy.listing import fetch, fetch_machine, is_name
    from drivetrain.targets.sagemaker.document.document import MAX_BYTES, from_json, read
    from drivetrain.targets.sagemaker.states.machine import is_machine, read_machine

    if is_name(what) and not (region is None and Path(what).is_file()) and ":states:" not in what:
        there, where = fetch(what, region)
        definition = read(there.text, f"pipeline {there.name!r} in {where}")
        return definition, there.arn, f"drivetrain import {what} --region {where} -o {there.name}.json", None
    if region is not None:
        raise UserError(f"--region is of a deployed pipeline, and {what} is no name of one. Give one of both.")
    text = fetch_machine(what) if what.startswith("arn:") else definition_text(Path(what))
    if len(text) > MAX_BYTES or not is_machine(raw := parse(text, what)):
        return read(text, what), None, "", None
    machine = read_machine(cast("dict[str, Any]", raw), what)
    return from_json(machine.definition, what), None, f"drivetrain import {what} -o {_name(what)}.json", machine
