"""Trainings that ModelTrainer of the SageMaker SDK v3 made: their channel `sm_drivers` brings sm_train.sh, which sets
the script's variables, goes to the folder of its code and starts a driver.

sm_train.sh runs here as it is. Of what it calls, this is changed in the copy that the job gets (seen in sagemaker-train
1.27.0):

- torchrun, mpirun or Python start under our launcher: the drivers meet at the name algo-1 and at port 7777, which
  simulated hosts do not have, and MPI's starts an ssh server and writes all variables to this machine's
  /etc/environment. So signals reach the script, and a failure names rank and exception. A shell script, a command and a
  driver of one's own run as they are.
- Requirements are not installed: they would come into the user's environment.
- SM_MASTER_ADDR and, on several hosts, SM_MASTER_PORT are those of this job.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import WARNING, UserError
from drivetrain.base.json_text import as_object, text_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan
from drivetrain.targets.sagemaker.run.jobs.job_data import TRAINING, input_uris, words_in

CHANNEL, START = "sm_drivers", "sm_train.sh"
_FAILURE = "/opt/ml/output/failure"
_LAUNCHERS = {"basic_script_driver.py": "python", "torchrun_driver.py": "torchrun", "mpi_driver.py": "mpirun"}
_DRIVER = '''"""In the place of this driver: Drivetrain's launcher."""

import os

command, variables = {command!r}, {variables!r}
os.execve(command[0], command, {{**os.environ, **variables}})
'''
_NOT_INSTALLED = """print("note: requirements are not installed locally: the program sees this environment's packages.")
"""
_MPI_OPTIONS = "mpi_additional_options"


def is_one(arguments: Mapping[str, Any]) -> bool:
    """True of a training job that sm_train.sh starts."""
    return any(f"/{CHANNEL}/{START}" in str(word) for word in words_in(arguments, "ContainerArguments"))


def problems(step: StepNode, plan: RunPlan) -> list[str]:
    """Why its processes cannot start here."""
    uri = text_in(input_uris(plan.arguments), CHANNEL)
    if uri is None or not uri.startswith("s3://"):
        return []
    from drivetrain.processes import mounts

    is_mpi = _MPI_OPTIONS in _read(plan.store.path(uri) / "distributed.json")
    if not is_mpi or shutil.which("mpirun", path=mounts.search_path()) is not None:
        return []
    return [
        f"step {step.name!r} starts its processes with mpirun, which is not on PATH. Install Open MPI (apt-get "
        f"install openmpi-bin), or give its results with --stub {step.name}=outputs.json."
    ]


def adapt(root: Path, hosts: Sequence[str], *, is_rewritten: bool) -> list[str]:
    """Change what one of the hosts was brought; gives lines for the log.

    Args:
        root: the host's tree, with its data.
        hosts: the names of all hosts.
        is_rewritten: /opt/ml is not mounted, so that each path to it is rewritten.
    """
    from drivetrain.processes import mounts
    from drivetrain.steps.user_code import bool_warnings

    drivers, code = (mounts.host_path(f"{TRAINING}/{name}", root) for name in (CHANNEL, "code"))
    script = str(_read(drivers / "sourcecode.json").get("entry_script") or "")
    distributed = _read(drivers / "distributed.json")
    if script.endswith(".py"):
        values = _read(root / "input" / "config" / "hyperparameters.json")
        for name, launcher in _LAUNCHERS.items():
            if (driver := drivers / "distributed_drivers" / name).is_file():
                driver.write_text(_driver(launcher, script, values, distributed), encoding="utf-8")
    if (installer := drivers / "scripts" / "install_requirements.py").is_file():
        installer.write_text(_NOT_INSTALLED, encoding="utf-8")
    meeting = {
        'SM_MASTER_ADDR = "algo-1"': f'SM_MASTER_ADDR = "{hosts[0]}"',
        "SM_MASTER_PORT = 7777": 'SM_MASTER_PORT = int(os.environ.get("DRIVETRAIN_PORT", 7777))',
    }
    _replace(drivers / "scripts" / "environment.py", meeting)
    # No pip is needed, and what it would say of a failure hides the reason.
    _replace(drivers / START, {' || -z "$SM_PIP_CMD"': "", f">> {_FAILURE}": ">> /dev/null"})
    if is_rewritten:
        for path in (*drivers.rglob("*.py"), *drivers.rglob("*.sh")):
            _write(path, mounts.rewrite(_text_of(path), root))
    _, left_out = _mpi_options(distributed)
    lines = [f"note: {' '.join(left_out)} of {_MPI_OPTIONS} is left out."] if left_out else []
    warnings = bool_warnings(code / script) if (code / script).is_file() else ()
    return [*lines, *(f"{WARNING}{warning}" for warning in warnings)]


def _driver(launcher: str, script: str, values: Mapping[str, Any], distributed: Mapping[str, Any]) -> str:
    from drivetrain.steps.trainer_mode import arguments as script_arguments
    from drivetrain.targets.sagemaker.run import toolkit

    given = 1 if launcher == "python" else distributed.get("process_count_per_node") or 0
    if not str(given).isdecimal():
        raise UserError(f"distributed.json: process_count_per_node is {given!r:.80}. Allowed: a whole number.")
    variables, _ = _mpi_options(distributed)
    command = [*toolkit.launched(launcher, int(given)), "--script", script, *script_arguments(values)]
    return _DRIVER.format(command=command, variables={**variables, "DRIVETRAIN_FAILURE_FILE": _FAILURE})


def _mpi_options(distributed: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    from drivetrain.targets.sagemaker.run import toolkit

    given: Any = distributed.get(_MPI_OPTIONS) or []
    words = cast("list[Any]", given) if isinstance(given, list) else [given]
    return toolkit.mpi_options(" ".join(map(str, words)))


def _replace(path: Path, texts: Mapping[str, str]) -> None:
    if not path.is_file():
        return
    content = _text_of(path)
    for old, new in texts.items():
        content = content.replace(old, new)
    _write(path, content)


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", errors="surrogateescape")


def _read(path: Path) -> dict[str, Any]:
    """The object in a file of the SDK's; empty if it is missing."""
    try:
        return as_object(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):  # the job says so itself
        return {}
