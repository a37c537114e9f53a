"""SageMaker Pipelines as a target; see ../target.py. The local runner executes what it compiles to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.compile.compile import Compiled
    from drivetrain.targets.sagemaker.inspection import Inspection
    from drivetrain.targets.target import Problem

TITLE, SUFFIX = "SageMaker Pipelines", ".json"


def check(pipeline: Pipeline) -> list[Problem]:
    """What SageMaker Pipelines cannot express: resources of a shared machine."""
    from drivetrain.spec.steps import JobStep, flatten
    from drivetrain.targets.target import Problem

    return [
        Problem(step.name, "cluster.resources", "a job has machines of its own. Give an instance_type.")
        for step in flatten(pipeline.steps)
        if isinstance(step, JobStep) and step.cluster.resources is not None and step.cluster.instance_type == ""
    ]


def compile(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, wheels_optional: bool = False
) -> Compiled:
    """The pipeline's definition, as JSON."""
    from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

    return compile_pipeline(pipeline, source, base, wheels_optional=wheels_optional)


def reads(text: bytes) -> bool:
    """Whether a text seems to be a definition of SageMaker Pipelines."""
    return b'"Steps"' in text


def inspect(text: bytes, source: str) -> Inspection:
    """What would be refused of a definition, and where; what is not known of it."""
    from drivetrain.targets.sagemaker import inspection
    from drivetrain.targets.sagemaker.document.document import read

    return inspection.inspect(read(text, source))
