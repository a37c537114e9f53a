"""Training steps that are notebook jobs: a notebook is executed with its parameters, cell by cell.

On the service the image's own program does it (`amazon_sagemaker_scheduler`, with papermill); here notebook_program.py
does, where nbclient and ipykernel are installed. https://docs.aws.amazon.com/sagemaker/latest/dg/notebook-auto-run.html
"""

from __future__ import annotations

import importlib.util
import keyword
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.jobs.job_data import words_in

ENTRY_POINT = "amazon_sagemaker_scheduler"
INPUT_PATH, NOTEBOOK, OUTPUT = "SM_EXECUTION_INPUT_PATH", "SM_INPUT_NOTEBOOK_NAME", "SM_OUTPUT_NOTEBOOK_NAME"
_NEEDED = ("nbclient", "nbformat", "ipykernel")
_PROGRAM = Path(__file__).with_name("notebook_program.py")


def is_one(arguments: Mapping[str, Any]) -> bool:
    """Return True if a training job executes a notebook."""
    return words_in(arguments, "ContainerEntrypoint") == [ENTRY_POINT]


def problems(step: StepNode, arguments: Mapping[str, Any]) -> list[str]:
    """Why a notebook job cannot run here."""
    given = object_in(arguments, "Environment")
    found = [
        f"step {step.name!r}: a notebook job needs {name} in its Environment."
        for name in (INPUT_PATH, NOTEBOOK, OUTPUT)
        if not given.get(name)
    ]
    found += [
        f"step {step.name!r}: hyperparameter {name!r} would be a variable of the notebook, and that is no name of one. "
        "Allowed: letters, digits and '_', no digit first, no word of Python's."
        for name in object_in(arguments, "HyperParameters")
        if not name.isidentifier() or keyword.iskeyword(name)
    ]
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        found.append(
            f"step {step.name!r} executes a notebook, for which {', '.join(missing)} must be installed (pip install "
            f"nbclient ipykernel); or give its results with --stub {step.name}=outputs.json."
        )
    return found


def command() -> tuple[str, ...]:
    """The command that runs in place of the image."""
    return (sys.executable, "-P", str(_PROGRAM), "/opt/ml")
