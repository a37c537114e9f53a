"""`drivetrain import`: a definition that was not made here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import count, printable
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.document.document import Definition
    from drivetrain.targets.sagemaker.written import Written
    from drivetrain.targets.written.names import Hints

app = App()

DIFFERENT = 1
_SCRIPTS = (".py", ".ipynb")


class _Source(NamedTuple):
    """A definition, with facts beyond it."""

    definition: Definition
    name: str
    """The pipeline's."""
    hints: Hints | None = None
    lost: tuple[str, ...] = ()
    """Parts of its source that it leaves out."""
    notes: tuple[str, ...] = ()
    """Facts about how it was read, for people."""
    arn: str | None = None
    again: str = ""
    """The way to write it to a file, if it is in none."""


@app.command(name="import")
def import_(
    what: Annotated[
        str,
        Argument(
            metavar="WHAT",
            help="A FILE as DescribePipeline gives it, a script, or a deployed pipeline's NAME or ARN.",
        ),
    ],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the definition there.")] = None,
    region: Annotated[
        str | None,
        Option("--region", metavar="REGION", help="Region of a deployed pipeline or a script  [default: AWS_REGION]"),
    ] = None,
    code: Annotated[
        Path | None,
        Option("--code", metavar="FILE.py", help="Write the pipeline's code there; 1 unless it means the same."),
    ] = None,
    moving: Annotated[
        list[str] | None,
        Option("--moving", metavar="STEP", help="Make a step of --code a script of the repository. Repeatable."),
    ] = None,
    run_script: Annotated[
        bool, Option("--run-script", help="Run a script of the SageMaker SDK, whatever it holds.")
    ] = False,
    python: Annotated[
        Path | None, Option("--python", metavar="FILE", help="A Python with the SDK, to run it  [default: this one]")
    ] = None,
    pipeline: Annotated[
        str | None, Option("--pipeline", metavar="NAME", help="One of several pipelines that a script makes.")
    ] = None,
    role: Annotated[
        str | None, Option("--role", metavar="ARN", help="The role that a script's get_execution_role() gives.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Read any SageMaker definition, and say what it is.

    Nothing of it is lost: fields and step types that are not known here are kept as they are. What the service would
    refuse is said with its path. The file that is written means the same, and the other commands take it. A deployed
    pipeline, also one of another account that shares it, is read from its account, where nothing is changed.

    With --code it becomes Python: jobs as they are, in words of drivetrain.native. The code is compiled, and compared
    with the definition. What has no word is JSON in the code, and listed with the reason.

    With --moving a job whose Python script lies in S3 becomes a script of the repository, and the plan says what that
    changes. The scripts of a deployed pipeline are fetched into src/, beside the code.

    A state machine of Step Functions, a file or an ARN, becomes a definition: its SageMaker tasks, functions, choices,
    parallel branches and maps. The rest is named; the command ends with 1 if a state or a value is left out.

    A pipeline of Kubeflow Pipelines, the YAML of its compiler, becomes code in words of drivetrain.native.kubeflow.

    A script (.py or .ipynb) of the SageMaker Python SDK is run, with --run-script, without network and credentials.
    Its pipeline's definition is read, and its names and comments go into the code. It must make the pipeline without
    arguments; calls such as upsert() and start() have no effect, and are listed.

    \b
    Examples:
      drivetrain import nightly --code nightly.py
      drivetrain import nightly --code moved.py --moving Evaluate
      drivetrain import machine.asl.json --code machine.py
      drivetrain import pipeline.yaml --code churn.py
      drivetrain import old.py --run-script --python sdk/bin/python --code new.py
      drivetrain import exported.json
      drivetrain import exported.json -o pipeline.json
      drivetrain import nightly --region eu-west-1 -o nightly.json
      drivetrain run -d pipeline.json
    """
    from drivetrain.targets.sagemaker.inspection import inspect

    if code is not None:
        _refuse_code(code)
    elif moving:
        raise UserError("--moving changes the code that is written. Add --code FILE.py.")
    script = {"python": python, "pipeline": pipeline, "role": role}
    if not run_script and Path(what).is_file() and Path(what).suffix not in _SCRIPTS:
        from drivetrain.operations.operands import definition_text
        from drivetrain.targets.target import inspector_of

        text = definition_text(Path(what))
        if hasattr(reader := inspector_of(text, what), "write_code"):
            refused = {"--output": output, "--region": region, **{f"--{name}": value for name, value in script.items()}}
            return _of_another(reader, text, what, code, refused, as_json=as_json)
    source = _script(Path(what), region, script) if run_script else _read(what, region, script)
    definition = source.definition
    found = inspect(definition)
    written = None if code is None else _written(source, code, tuple(moving or ()))
    status = 0 if not source.lost and (written is None or written.is_as_told) else DIFFERENT
    if output is not None:
        from drivetrain.base.files import write_text
        from drivetrain.targets.sagemaker.document.document import write

        write_text(output, write(definition))
    if as_json:
        deployed = {} if source.arn is None else {"pipeline_arn": source.arn}
        coded = {} if written is None else {"code": {"file": str(code), **written.to_json()}}
        noted = {"lost": list(source.lost), "notes": list(source.notes)}
        say_json({**found.to_json(), **deployed, **noted, "file": None if output is None else str(output), **coded})
        return status
    said = [*found.lines(definition), *(f"{printable(each)}." for each in (*source.lost, *source.notes))]
    if written is not None:
        said += written.lines(str(code))
        said += ["The definition, not the state machine: see what is left out above."] if source.lost else []
    if moving and written is not None and not written.moves:
        said.append("No step moved: first, the code must mean the same.")
    if source.again and output is None:
        say("\n".join([*said, f"Write it to a file: {source.again}"]))
        return status
    if output is not None:
        said.append(f"Wrote {output}.")
    usable = output or what
    say("\n".join([*said, f"Look at it: drivetrain show {usable}", f"Run it here: drivetrain run -d {usable}"]))
    return status


def _of_another(
    reader: Any, text: bytes, what: str, code: Path | None, refused: Mapping[str, Any], *, as_json: bool
) -> int:
    """A pipeline of another target, whose definition is its own."""
    from drivetrain.base.files import write_text

    if given := next((option for option, value in refused.items() if value is not None), ""):
        raise UserError(f"{given} is of SageMaker's definitions, and {what} is none. Leave it out.")
    found, written = reader.inspect(text, what), None
    if code is not None:
        written = reader.write_code(text, what, code.name)
        write_text(code, written.code)
    if as_json:
        coded = {} if written is None else {"code": {"file": str(code), **written.to_json()}}
        say_json({**found.facts, "title": reader.TITLE, **coded})
    else:
        said = [f"{what}: a pipeline of {reader.TITLE} with {count(found.num_steps, 'step')}.", *found.problems]
        say("\n".join([*said, *([] if written is None else written.lines(str(code)))]))
    return 0 if written is None or written.is_equal else DIFFERENT


def _refuse_code(path: Path) -> None:
    """Refuse a file that cannot be a pipeline's, or that a person may have edited."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UserError(f"--code {path}: a pipeline's file is imported. Give a name such as nightly.py.")
    if path.exists():
        raise UserError(f"--code {path}: the file is there already. Give another name, or remove it.")


def _written(source: _Source, path: Path, moving: tuple[str, ...]) -> Written:
    """The definition as code, in a file."""
    from drivetrain.base.files import write_text
    from drivetrain.targets.sagemaker.written import write_code

    written = write_code(source.definition, source.name, path.name, source.hints, moving)
    write_text(path, written.code)
    if source.arn is not None and written.moves:
        from drivetrain.targets.sagemaker.written.moving import fetched

        written = replace(written, moves=tuple(fetched(move, path.parent) for move in written.moves))
    return written


def _read(what: str, region: str | None, script: Mapping[str, Any]) -> _Source:
    """A definition; the pipeline has the name that it is deployed by, or that of its file."""
    from drivetrain.base.json_text import parse
    from drivetrain.operations.operands import definition_text, name_of
    from drivetrain.targets.sagemaker.deploy.listing import fetch, is_name
    from drivetrain.targets.sagemaker.document.document import MAX_BYTES, from_json, read
    from drivetrain.targets.sagemaker.states.fetched import fetch_machine
    from drivetrain.targets.sagemaker.states.machine import is_machine, read_machine
    from drivetrain.targets.written.names import Hints

    if given := next((f"--{option}" for option, value in script.items() if value is not None), ""):
        raise UserError(f"{given} is of a script that is run. Add --run-script, or leave it out.")
    if Path(what).suffix in _SCRIPTS:
        raise UserError(f"{what} is a script. It would be executed, whatever it holds: read it, then add --run-script.")
    name = name_of(Path(re.split("[/:]", what)[-1].replace(".asl.", ".")))
    if is_name(what) and not (region is None and Path(what).is_file()) and ":states:" not in what:
        there, where = fetch(what, region)
        definition = read(there.text, f"pipeline {there.name!r} in {where}")
        again = f"drivetrain import {what} --region {where} -o {there.name}.json"
        return _Source(definition, name, arn=there.arn, again=again)
    if region is not None:
        raise UserError(f"--region is of a deployed pipeline, and {what} is no name of one. Give one of both.")
    text = fetch_machine(what) if what.startswith("arn:") else definition_text(Path(what))
    if len(text) > MAX_BYTES or not is_machine(raw := parse(text, what)):
        return _Source(read(text, what), name)
    machine = read_machine(cast("dict[str, Any]", raw), what)
    again = f"drivetrain import {what} -o {name}.json"
    definition, hints = from_json(machine.definition, what), Hints(docstring=machine.docstring)
    return _Source(definition, name, hints, lost=machine.lost, notes=machine.notes, again=again)


def _script(path: Path, region: str | None, options: Mapping[str, Any]) -> _Source:
    """The definition that a script makes."""
    from drivetrain.targets.sagemaker.account import region_or_default
    from drivetrain.targets.sagemaker.recorded import record

    if path.suffix not in _SCRIPTS or not path.is_file():
        raise UserError(f"--run-script runs a script, and {path} is no file that ends with {' or '.join(_SCRIPTS)}.")
    made = record(path, region=region_or_default(region), **options)
    return _Source(made.definition, made.name, made.hints, notes=made.notes, again=f"add -o {made.name}.json")
