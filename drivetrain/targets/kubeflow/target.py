"""Kubeflow Pipelines as a target; see ../target.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.run_store.home import Home

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from drivetrain.run_store.events import ExecutionFinished, Observer
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.kubeflow.compile.compile import Compiled
    from drivetrain.targets.kubeflow.written import Written
    from drivetrain.targets.target import Inspection, Problem

TITLE, SUFFIX = "Kubeflow Pipelines", ".yaml"


def check(pipeline: Pipeline) -> list[Problem]:
    """Find what Kubeflow Pipelines cannot express."""
    from drivetrain.targets.kubeflow.compile import checks

    return checks.check(pipeline)


def compile(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, here: bool = False
) -> Compiled:
    """The pipeline's IR, as YAML."""
    from drivetrain.targets.kubeflow.compile.compile import compile_pipeline

    return compile_pipeline(pipeline, source, base, here=here)


def registry(deployment: Deployment) -> str | None:
    """The registry that the settings name."""
    from drivetrain.targets.kubeflow.settings import settings_of

    return settings_of(deployment).registry


def evidence(deployment: Deployment) -> str:
    """An object of each group beside its models."""
    return "drivetrain-evidence/GROUP.npz in the champion's bucket"


def run(compiled: Compiled, parameters: Mapping[str, Any], home: Path, observer: Observer) -> ExecutionFinished:
    """Run the YAML on this machine, by kfp's own local runner."""
    from drivetrain.targets.kubeflow.run.runner import Runner

    return Runner(Home(home), observer).start(compiled, parameters)


def reads(text: bytes) -> bool:
    """Return True if a text seems to be the IR of a pipeline."""
    from drivetrain.targets.kubeflow.ir.check import looks_like_ir

    return looks_like_ir(text)


def inspect(text: bytes, source: str) -> Inspection:
    """Find what a cluster would refuse of a pipeline's YAML, by any compiler."""
    from drivetrain.targets.kubeflow.ir import check

    return check.inspect(text, source)


def write_code(text: bytes, source: str, file: str) -> Written:
    """The YAML of a pipeline as Python code for a file of that name."""
    from drivetrain.targets.kubeflow import written

    return written.write_code(text, source, file)
