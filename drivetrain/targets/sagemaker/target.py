"""SageMaker Pipelines as a target; see ../target.py. The local runner executes what it compiles to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import Inspection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from drivetrain.run_store.events import ExecutionFinished, Observer
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.compile.compile import Compiled
    from drivetrain.targets.target import Problem

TITLE, SUFFIX = "SageMaker Pipelines", ".json"


def check(pipeline: Pipeline) -> list[Problem]:
    """List what SageMaker Pipelines cannot express in a pipeline."""
    from drivetrain.targets.sagemaker.compile import unsupported

    return unsupported(pipeline)


def compile(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, here: bool = False
) -> Compiled:
    """The pipeline's definition, as JSON."""
    from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

    return compile_pipeline(pipeline, source, base, here=here)


def registry(deployment: Deployment) -> str:
    """The account's Model Registry, in the region of the settings."""
    return f"sagemaker:{settings_of(deployment).region}"


def evidence(deployment: Deployment) -> str:
    """An object of each group in the deployment's bucket."""
    return f"{settings_of(deployment).evidence}/GROUP.npz"


def run(compiled: Compiled, parameters: Mapping[str, Any], home: Path, observer: Observer) -> ExecutionFinished:
    """Run the definition on this machine, by the local runner, with its usual options."""
    from drivetrain.targets.sagemaker.run.runner import Runner

    pipeline = compiled.pipeline
    options = Options(
        pipeline=pipeline.name,
        max_parallel=pipeline.max_parallel_steps,
        triggered=bool(pipeline.triggers),
        region=settings_of(pipeline.deployment).region,
    )
    return Runner(Home(home), observer).start(compiled.text, parameters, options, assets=compiled.assets)


def reads(text: bytes) -> bool:
    """Return True if a text seems to be a definition of SageMaker Pipelines."""
    return b'"Steps"' in text


def inspect(text: bytes, source: str) -> Inspection:
    """Inspect a definition: what would be refused and where, and what is not known."""
    from drivetrain.targets.sagemaker import inspection

    found = inspection.inspect(read(text, source))
    return Inspection(found.num_steps, found.num_unchecked, found.problems(), found.notes(), found.to_json())
