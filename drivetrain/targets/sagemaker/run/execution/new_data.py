"""Says of which source a step has new data: the versions that looks found are nothing that anybody can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.spec.resources import READ_SOURCE, SOURCES_VARIABLE
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.looks import runs_program, source_of, steps_told_in
from drivetrain.targets.sagemaker.run.execution.cache_differences import Difference
from drivetrain.targets.sagemaker.run.jobs.job_data import input_uris


def new_data(
    step: StepNode, fields: Mapping[str, Any], difference: Difference, arguments: Callable[[str], Mapping[str, Any]]
) -> str | None:
    """`new data in rows`, or `new data of s3://lake/rows/` where no input has the source; None where the difference is
    no look's.

    Args:
        arguments: those of a step of this execution.
    """
    path, old, new = difference
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    if path[0] == "Environment" and path[-1].startswith(SOURCES_VARIABLE):
        looks = steps_told_in(step, "Environment", path[-1])
    elif path == ("AppSpecification", "ContainerArguments", "version") and runs_program(fields, READ_SOURCE):
        looks = steps_told_in(step, "AppSpecification", "ContainerArguments")
    else:
        return None
    inputs = {uri: name for name, uri in input_uris(fields).items()}
    told = [(inputs.get(source), source) for look in looks if (source := source_of(arguments(look)))]
    named = [f"in {name}" if name else f"of {source}" for name, source in told]
    return f"new data {' and '.join(named)}" if named else None
