"""Whether Spark runs on this machine, and what a job of it finds in its container."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from drivetrain.targets.local.containers.mounts import search_path
from drivetrain.targets.local.spark import submit

SMSPARK = "smspark-submit"
PROGRAM = Path(submit.__file__)


def is_used(command: Sequence[str]) -> bool:
    """Whether a job's command is the one of SageMaker's Spark image."""
    return SMSPARK in command


def problem(step: str) -> str | None:
    """Why a step that Spark runs cannot run here, and what helps; None where it can."""
    lacking = [
        *(["Java 17 or newer (the command java is not found)"] if shutil.which("java") is None else ()),
        *(["PySpark (python -m pip install 'drivetrain[spark]')"] if home() is None else ()),
    ]
    if not lacking:
        return None
    return (
        f"step {step!r} runs on Spark, which needs {' and '.join(lacking)}. Install it, give transform_data "
        f"engine=polars, or give the step's results with --stub {step}=outputs.json."
    )


def home() -> Path | None:
    """The folder of the installed PySpark, with its spark-submit."""
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent


def environment(folder: Path) -> dict[str, str]:
    """Variables with which the command smspark-submit is found.

    Args:
        folder: of the step's attempt; gets a folder with the command.
    """
    found = home()
    assert found is not None, "checked before the run"
    commands = folder / "commands"
    commands.mkdir()
    command = commands / SMSPARK
    command.write_text(f'#!/bin/sh\nexec {shlex.join((sys.executable, str(PROGRAM)))} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return {"PATH": os.pathsep.join((str(commands.resolve()), search_path())), submit.HOME: str(found)}
