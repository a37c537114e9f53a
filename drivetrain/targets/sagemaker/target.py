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
    """What SageMaker Pipelines cannot express."""
    from drivetrain.targets.sagemaker.compile import checks

    return checks.check(pipeline)


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
