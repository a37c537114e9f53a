"""Names for authors, to write pipelines and to run them; names are loaded when they are first used.

from drivetrain import Cluster, Pipeline, Settings, fail, register, step, when

import drivetrain as dt
run = dt.run("retraining", epochs=5)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drivetrain.authoring import (
        Pipeline,
        call_lambda,
        execution,
        fail,
        folder_in,
        folder_out,
        join,
        script,
        step,
        when,
    )
    from drivetrain.authoring.binding import fixed
    from drivetrain.authoring.for_each import current_item, for_each, largest, smallest
    from drivetrain.authoring.register import register
    from drivetrain.authoring.settings import Settings
    from drivetrain.authoring.tune import between, one_of, tune
    from drivetrain.base.errors import SpecError, UserError
    from drivetrain.catalog.instances import processing_instance_type
    from drivetrain.client.deployed import Deployed
    from drivetrain.client.models import Model, Registry, models
    from drivetrain.client.run import Run, run
    from drivetrain.client.runs import runs
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Alarm, Limit, Parameter, PipelineFinished, RegistryEvent, Schedule, Upload
    from drivetrain.spec.resources import (
        Alternative,
        CachePolicy,
        Checkpoint,
        Cluster,
        InstanceGroup,
        Mlflow,
        Network,
        Resources,
        RetryPolicy,
        Spot,
    )
    from drivetrain.spec.steps import Dependency, NativeStep
    from drivetrain.spec.training_options import Debugger, TrainingOptions
    from drivetrain.targets.sagemaker.settings import Keys

_HOME = {
    **dict.fromkeys(
        ("call_lambda", "execution", "fail", "folder_in", "folder_out", "join", "script", "step", "when"),
        "authoring",
    ),
    "fixed": "authoring.binding",
    "processing_instance_type": "catalog.instances",
    "Deployed": "client.deployed",
    **dict.fromkeys(("Model", "Registry", "models"), "client.models"),
    "Run": "client.run",
    "run": "client.run",
    "runs": "client.runs",
    "register": "authoring.register",
    **dict.fromkeys(("current_item", "for_each", "largest", "smallest"), "authoring.for_each"),
    **dict.fromkeys(("SpecError", "UserError"), "base.errors"),
    **dict.fromkeys(("between", "one_of", "tune"), "authoring.tune"),
    "Settings": "authoring.settings",
    "Parameter": "spec.pipeline",
    "Pipeline": "authoring",
    "Deployment": "spec.deployment",
    "Keys": "targets.sagemaker.settings",
    **dict.fromkeys(("CachePolicy", "Checkpoint", "Cluster", "RetryPolicy", "Spot"), "spec.resources"),
    **dict.fromkeys(("Alternative", "InstanceGroup", "Mlflow", "Network", "Resources"), "spec.resources"),
    **dict.fromkeys(("Debugger", "TrainingOptions"), "spec.training_options"),
    **dict.fromkeys(("Dependency", "NativeStep"), "spec.steps"),
    **dict.fromkeys(("Alarm", "Limit", "PipelineFinished", "RegistryEvent", "Schedule", "Upload"), "spec.pipeline"),
}

__all__ = [
    "Alarm",
    "Alternative",
    "CachePolicy",
    "Checkpoint",
    "Cluster",
    "Debugger",
    "Dependency",
    "Deployed",
    "Deployment",
    "InstanceGroup",
    "Keys",
    "Limit",
    "Mlflow",
    "Model",
    "NativeStep",
    "Network",
    "Parameter",
    "Pipeline",
    "PipelineFinished",
    "Registry",
    "RegistryEvent",
    "Resources",
    "RetryPolicy",
    "Run",
    "Schedule",
    "Settings",
    "SpecError",
    "Spot",
    "TrainingOptions",
    "Upload",
    "UserError",
    "between",
    "call_lambda",
    "current_item",
    "execution",
    "fail",
    "fixed",
    "folder_in",
    "folder_out",
    "for_each",
    "join",
    "largest",
    "models",
    "one_of",
    "processing_instance_type",
    "register",
    "run",
    "runs",
    "script",
    "smallest",
    "step",
    "tune",
    "when",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("drivetrain")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
