"""The step types as they run on this machine: one file a type, found by the type's name (`RegisterModel` ->
register_model.py). Types that need a service which this machine lacks are a table in _absent.py.

The first line of a file begins with the type as definitions spell it (`EMRServerless: ...`). It has

    def check(step: StepNode, plan: RunPlan) -> list[str]
        Why the step could not run, found before anything starts; empty when it can.
    def run(context: StepContext) -> StepResult
        Runs in a thread of its own. Raises StepFailedError, StepStoppedError, or UserError for bad input.

and, where the type is decided at once by the scheduler, `INLINE = True` (Condition and Fail are such types). It may
have

    def written(arguments) -> list[str]
        The URIs that the step writes to, as far as they are known before the run.
    def named(arguments) -> list[str]
        URIs that its program is given: it may read what lies there, or write it.
    def described(context: StepContext) -> dict
        What the describe call says, beside the arguments, of a step that was not run but has succeeded (a stub).
    ONLY_RUNS_SAY
        Names of members, anywhere below those of `described`, that it leaves out: a stub has to give them.
"""

from __future__ import annotations

import importlib
import keyword
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult


class StepType(Protocol):
    """The module of a step type, or its entry in _absent.py."""

    def check(self, step: StepNode, plan: RunPlan) -> list[str]: ...
    def run(self, context: StepContext) -> StepResult: ...


def file_name(type_name: str) -> str:
    """`RegisterModel` -> `register_model`, `EMR` -> `emr`, `Lambda` -> `lambda_` (Python has that word itself)."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type_name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def known() -> dict[str, str]:
    """File name -> type name as definitions spell it, of every type; an absent one has the name without the file."""
    types = {**_in_files(), **{file_name(name): name for name in _absent_types()}}
    return dict(sorted(types.items()))


@cache
def _in_files() -> dict[str, str]:
    paths = (path for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem: _spelled(path) for path in paths}


def _absent_types() -> Mapping[str, StepType]:
    return importlib.import_module(f"{__name__}._absent").ABSENT


def _spelled(path: Path) -> str:
    """The type in a file's first line; the file is not imported for it."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix('"""').partition(":")[0]


def find(type_name: str) -> StepType | None:
    """The module of a type, or its entry among the absent ones; None for an unknown type."""
    name = file_name(type_name)
    if name not in _in_files():
        return _absent_types().get(type_name)
    return cast("StepType", importlib.import_module(f"{__name__}.{name}"))
