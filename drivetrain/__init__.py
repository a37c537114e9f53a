"""What an author needs to write a pipeline; names are loaded when they are first used.

from drivetrain import Cluster, Pipeline, Settings, fail, register, step, when
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drivetrain.base.errors import SpecError, UserError
    from drivetrain.pipelines.authoring import (
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
    from drivetrain.pipelines.recommend.instances import processing_instance_type
    from drivetrain.pipelines.registering import register
    from drivetrain.pipelines.repeating import current_item, for_each, largest, smallest
    from drivetrain.pipelines.searching import between, one_of, tune
    from drivetrain.pipelines.settings import Settings
    from drivetrain.pipelines.spec.pipeline import Parameter, Pipeline
    from drivetrain.pipelines.spec.resources import (
        Alternative,
        CachePolicy,
        Checkpoint,
        Cluster,
        Deployment,
        InstanceGroup,
        Keys,
        Mlflow,
        Network,
        RetryPolicy,
        Spot,
    )
    from drivetrain.pipelines.spec.steps import Dependency, NativeStep
    from drivetrain.pipelines.spec.training_options import TrainingOptions
    from drivetrain.pipelines.spec.triggers import Alarm, Limit, PipelineFinished, RegistryEvent, Schedule, Upload

_HOME = {
    **dict.fromkeys(
        ("call_lambda", "execution", "fail", "folder_in", "folder_out", "join", "script", "step", "when"),
        "pipelines.authoring",
    ),
    "processing_instance_type": "pipelines.recommend.instances",
    "register": "pipelines.registering",
    **dict.fromkeys(("current_item", "for_each", "largest", "smallest"), "pipelines.repeating"),
    **dict.fromkeys(("SpecError", "UserError"), "base.errors"),
    **dict.fromkeys(("between", "one_of", "tune"), "pipelines.searching"),
    "Settings": "pipelines.settings",
    **dict.fromkeys(("Parameter", "Pipeline"), "pipelines.spec.pipeline"),
    **dict.fromkeys(
        ("CachePolicy", "Checkpoint", "Cluster", "Deployment", "RetryPolicy", "Spot"), "pipelines.spec.resources"
    ),
    **dict.fromkeys(("Alternative", "InstanceGroup", "Keys", "Mlflow", "Network"), "pipelines.spec.resources"),
    "TrainingOptions": "pipelines.spec.training_options",
    **dict.fromkeys(("Dependency", "NativeStep"), "pipelines.spec.steps"),
    **dict.fromkeys(
        ("Alarm", "Limit", "PipelineFinished", "RegistryEvent", "Schedule", "Upload"), "pipelines.spec.triggers"
    ),
}

__all__ = [
    "Alarm",
    "Alternative",
    "CachePolicy",
    "Checkpoint",
    "Cluster",
    "Dependency",
    "Deployment",
    "InstanceGroup",
    "Keys",
    "Limit",
    "Mlflow",
    "NativeStep",
    "Network",
    "Parameter",
    "Pipeline",
    "PipelineFinished",
    "RegistryEvent",
    "RetryPolicy",
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
    "folder_in",
    "folder_out",
    "for_each",
    "join",
    "largest",
    "one_of",
    "processing_instance_type",
    "register",
    "script",
    "smallest",
    "step",
    "tune",
    "when",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
