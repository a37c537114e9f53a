"""Names for authors, to write pipelines and to run them; names are loaded when they are first used.

from drivetrain import Cluster, Pipeline, Settings, fail, register, step, when

import drivetrain as dt
run = dt.run("retraining", epochs=5)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # "as" says to type checkers that a name is public
    from drivetrain.authoring import Pipeline as Pipeline
    from drivetrain.authoring import call_lambda as call_lambda
    from drivetrain.authoring import execution as execution
    from drivetrain.authoring import fail as fail
    from drivetrain.authoring import folder_in as folder_in
    from drivetrain.authoring import folder_out as folder_out
    from drivetrain.authoring import join as join
    from drivetrain.authoring import script as script
    from drivetrain.authoring import step as step
    from drivetrain.authoring import when as when
    from drivetrain.authoring.binding import fixed as fixed
    from drivetrain.authoring.for_each import current_item as current_item
    from drivetrain.authoring.for_each import for_each as for_each
    from drivetrain.authoring.for_each import largest as largest
    from drivetrain.authoring.for_each import smallest as smallest
    from drivetrain.authoring.register import register as register
    from drivetrain.authoring.settings import Settings as Settings
    from drivetrain.authoring.tune import between as between
    from drivetrain.authoring.tune import one_of as one_of
    from drivetrain.authoring.tune import tune as tune
    from drivetrain.base.errors import SpecError as SpecError
    from drivetrain.base.errors import UserError as UserError
    from drivetrain.catalog.instances import processing_instance_type as processing_instance_type
    from drivetrain.client.deployed import Deployed as Deployed
    from drivetrain.client.models import Model as Model
    from drivetrain.client.models import Registry as Registry
    from drivetrain.client.models import models as models
    from drivetrain.client.run import Run as Run
    from drivetrain.client.run import run as run
    from drivetrain.client.runs import runs as runs
    from drivetrain.spec.deployment import Deployment as Deployment
    from drivetrain.spec.pipeline import Alarm as Alarm
    from drivetrain.spec.pipeline import DataDrift as DataDrift
    from drivetrain.spec.pipeline import Limit as Limit
    from drivetrain.spec.pipeline import Parameter as Parameter
    from drivetrain.spec.pipeline import PipelineFinished as PipelineFinished
    from drivetrain.spec.pipeline import QualityDrop as QualityDrop
    from drivetrain.spec.pipeline import RegistryEvent as RegistryEvent
    from drivetrain.spec.pipeline import Schedule as Schedule
    from drivetrain.spec.pipeline import Upload as Upload
    from drivetrain.spec.resources import Alternative as Alternative
    from drivetrain.spec.resources import CachePolicy as CachePolicy
    from drivetrain.spec.resources import Checkpoint as Checkpoint
    from drivetrain.spec.resources import Cluster as Cluster
    from drivetrain.spec.resources import InstanceGroup as InstanceGroup
    from drivetrain.spec.resources import Mlflow as Mlflow
    from drivetrain.spec.resources import Network as Network
    from drivetrain.spec.resources import Resources as Resources
    from drivetrain.spec.resources import RetryPolicy as RetryPolicy
    from drivetrain.spec.resources import Spot as Spot
    from drivetrain.spec.steps import Dependency as Dependency
    from drivetrain.spec.steps import NativeStep as NativeStep
    from drivetrain.spec.training_options import Debugger as Debugger
    from drivetrain.spec.training_options import TrainingOptions as TrainingOptions
    from drivetrain.targets.sagemaker.settings import Keys as Keys

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
    **dict.fromkeys(("Alarm", "DataDrift", "Limit", "PipelineFinished", "QualityDrop"), "spec.pipeline"),
    **dict.fromkeys(("RegistryEvent", "Schedule", "Upload"), "spec.pipeline"),
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


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
