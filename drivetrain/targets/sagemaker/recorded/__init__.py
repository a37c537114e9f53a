"""A script of the SageMaker Python SDK as the definition that it makes, with its names and comments.

    recorded = record(Path("nightly_sdk.py"), python=Path(".venvs/sdk/bin/python"), region="eu-west-1", role=ROLE)
    recorded.name, recorded.definition, recorded.hints, recorded.notes

The script runs in a process of its own (recorder.py), without network and credentials.
"""

from __future__ import annotations

import json
import re
import site
import sys
import tempfile
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError, and_more, did_you_mean
from drivetrain.base.json_text import as_list, as_object
from drivetrain.base.records import dataclass
from drivetrain.processes.confining import run_confined
from drivetrain.steps.user_code import without_credentials
from drivetrain.targets.sagemaker.document.document import Definition, read
from drivetrain.targets.sagemaker.recorded.hints import hints
from drivetrain.targets.written.names import Hints

ROLE = "arn:aws:iam::000000000000:role/ExecutionRole"
SECONDS = 600
_RECORDER = Path(__file__).with_name("recorder.py")
_ROLE = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+")


@dataclass(frozen=True)
class Recorded:
    """A pipeline that a script makes."""

    name: str
    definition: Definition
    hints: Hints
    notes: tuple[str, ...]
    """Calls of the script that had no effect, lines that were left out."""


def record(
    script: Path, *, python: Path | None = None, pipeline: str | None = None, region: str, role: str | None = None
) -> Recorded:
    """Run a script, and take the definition of its pipeline.

    Args:
        script: a file, or a notebook, whose lines for IPython are left out.
        python: an interpreter that has the SDK; by default this one.
        pipeline: one of several that it makes.
        region: that of its sessions.
        role: answers get_execution_role(); its account is that of the default bucket.

    Raises:
        UserError: the script fails, makes no pipeline or several, or needs an answer of AWS; there is no SDK.
    """
    if role is not None and not _ROLE.fullmatch(role):
        raise UserError(f"--role {role}: give the ARN of a role, such as {ROLE}.")
    with tempfile.TemporaryDirectory(prefix="drivetrain-") as scratch:
        file, notes = script.resolve(), list[str]()
        if file.suffix == ".ipynb":
            code, notes = _cells(file)
            file = Path(scratch, f"{file.stem}.py")
            file.write_text(code, encoding="utf-8")
        said = _run(file, script, python or Path(sys.executable), Path(scratch), region, role or ROLE)
        definitions, failed = said["definitions"], said["failed"]
        made = [*definitions, *failed]
        if pipeline is None and len(made) > 1:
            raise UserError(f"{script} makes several pipelines. Choose one: --pipeline {' | '.join(made)}.")
        name = pipeline or next(iter(made), "")
        if not made:
            raise UserError(f"{script} makes no pipeline. If a function makes it, import a file that calls it.")
        if name in failed:
            raise UserError(f"{script}: pipeline {name!r} gives no definition: {failed[name]}.")
        if name not in definitions:
            raise UserError(f"{script} makes no pipeline {name!r}. {did_you_mean(name, made)}")
        if role is None and ROLE.split(":")[4] in definitions[name]:
            notes.append(f"Its account and role are made up ({ROLE}). Give yours: --role ARN")
        notes += [f"{label}: {and_more(listed, 3)}" for label, listed in said["notes"].items() if listed]
        definition = read(definitions[name], f"pipeline {name!r} of {script}")
        return Recorded(name, definition, hints(said["places"], file, name), tuple(notes))


def _run(file: Path, script: Path, python: Path, scratch: Path, region: str, role: str) -> dict[str, Any]:
    """The recorder's result."""
    result = scratch / "result.json"
    environment = {
        **{name: value for name, value in without_credentials().items() if not name.startswith("AWS_")},
        **{"HOME": str(scratch), "PYTHONUSERBASE": site.getuserbase(), "SAGEMAKER_VALIDATE_ROLE": "false"},
        **{"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "AWS_EC2_METADATA_DISABLED": "true"},
        **{"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"},
    }
    command = [str(python.absolute()), str(_RECORDER), str(file), str(result), role]
    if (ended := run_confined(command, environment, SECONDS, script.resolve().parent)) is None:
        raise UserError(f"{script} ran for {SECONDS} s and was ended. It must only make a pipeline.")
    code, out, err = ended
    last = ((out + err).strip().splitlines() or [f"exit code {code}"])[-1]
    if not result.exists():
        raise UserError(f"{script} could not be run by {python}: {last}")
    said = as_object(json.loads(result.read_text(encoding="utf-8")))
    if said.get("missing"):
        raise UserError(
            f"{python} has no SageMaker Python SDK. Install it there (pip install sagemaker, or 'sagemaker<3' for a "
            "script of version 2), or give another Python: --python sdk/bin/python."
        )
    if problem := said.get("problem"):
        advice = ""
        if "SystemExit" in problem:
            advice = f" It said: {last} (A script is run without arguments.)"
        elif "sagemaker" in problem and re.search("ImportError|ModuleNotFoundError", problem):
            advice = " The script may be of another version of the SDK: give --python one that has it."
        raise UserError(f"{script}: {problem}.{advice}")
    return said


def _cells(notebook: Path) -> tuple[str, list[str]]:
    """The code of a notebook, and the lines that are for IPython."""
    try:
        cells = as_list(as_object(json.loads(notebook.read_bytes())).get("cells"))
    except (OSError, ValueError) as error:
        raise UserError(f"{notebook}: it is no notebook: {error}") from None
    code: list[str] = []
    skipped: list[str] = []
    for cell in (as_object(each) for each in cells if as_object(each).get("cell_type") == "code"):
        lines = "".join(map(str, as_list(cell.get("source")))).splitlines()  # the format that Jupyter writes
        for line in lines:
            is_ipython = lines[0].startswith("%%") or line.lstrip().startswith(("%", "!", "?"))
            skipped += [line.strip()] if is_ipython else []
            code.append(re.sub(r"\S.*", "pass", line) if is_ipython else line)
    return "\n".join([*code, ""]), [f"Left out, for IPython: {and_more(skipped, 3)}"] if skipped else []
