"""Conditions that a cluster sets and a run on this machine does not: a registry that outlives a pod, storage that
Pipelines' launcher can read, and what an administrator has set.

A run here has a registry of its own, and its objects are files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivetrain.rules.training_rules import is_longer
from drivetrain.spec.pipeline import Graph, GroupTrigger, Pipeline, RegistryEvent
from drivetrain.spec.resources import Spot
from drivetrain.spec.steps import JobStep, RegisterStep, Step, TrainingStep, is_our_training
from drivetrain.spec.trainings import ways
from drivetrain.spec.values import ParameterRef
from drivetrain.targets.kubeflow.compile import retries
from drivetrain.targets.kubeflow.compile.mounts import volumes_of
from drivetrain.targets.kubeflow.compile.train_job import num_nodes
from drivetrain.targets.kubeflow.settings import BLOCK, NAME, Settings, settings_of
from drivetrain.targets.target import REGISTRY_VARIABLE, Problem

# A training that saves more often loses little.
_OFTEN_SECONDS = 900
_GIVE = (
    f"Set {BLOCK}.registry to one that outlives a pod, such as "
    "kubeflow:http://model-registry-service.kubeflow:8080 or mlflow:http://mlflow.mlflow:5000."
)


def for_this_machine(pipeline: Pipeline) -> Pipeline:
    """The pipeline as it runs here, where no TrainJob can be made: each training on one node in its task."""
    deployment = pipeline.deployment
    if settings_of(deployment).trainer.one_node == "pod":
        return pipeline
    block = dict(deployment.targets[NAME])
    block["trainer"] = {**block["trainer"], "one_node": "pod"}
    changed = deployment.model_copy(update={"targets": {**deployment.targets, NAME: block}})
    return pipeline.model_copy(update={"deployment": changed})


def problems(pipeline: Pipeline) -> Iterator[Problem]:
    """By step and field, those of the pipeline first."""
    settings, graph = settings_of(pipeline.deployment), Graph(pipeline)
    for trigger in pipeline.triggers:
        if isinstance(trigger, RegistryEvent) and trigger.group.startswith("arn:"):
            reason = f"{trigger.group} is a group of SageMaker. Name a group of the registry that the settings name."
            yield Problem("", f"trigger {trigger.name!r}", reason)
        if isinstance(trigger, GroupTrigger) and _is_lost(settings.registry, settings, ""):
            reason = f"it asks a model registry, and none is set that it can reach. {_GIVE}"
            yield Problem("", f"trigger {trigger.name!r}", reason)
    for step in graph.steps:
        asked = _registry(step, settings)
        if asked is not None and _is_lost(asked or None, settings, step.name):
            where = f"{asked!r} lies" if asked else "none is set, so it would lie"
            reason = f"it asks a model registry, and {where} on the disk of its pod, which is lost with it. {_GIVE}"
            yield Problem(step.name, "registry", reason)
        if settings.s3_endpoint is not None:
            yield from _storage(step, pipeline, settings)


def notes(pipeline: Pipeline) -> Iterator[str]:
    """Lines to read before the pipeline is deployed."""
    settings, graph = settings_of(pipeline.deployment), Graph(pipeline)
    if settings.storage_region is None and "root" in settings.model_fields_set:
        yield (
            f"{BLOCK}.region is not set: pods ask for {settings.root} without a region, which fails unless the "
            "service account or the ConfigMap kfp-launcher brings one. Set it to the bucket's."
        )
    if retries.are_needed(pipeline):
        yield retries.NOTE
    for step in graph.steps:
        if isinstance(step, TrainingStep) and _may_lose_much(step, pipeline, settings):
            yield (
                f"Step {step.name!r}: a spot pod ends within a second of SIGTERM, and what was learnt since the last "
                f"checkpoint is lost. Save often, or set {BLOCK}.trainer.one_node to spot: a TrainJob has time to "
                "save (docs/spot.md)."
            )


def _may_lose_much(step: TrainingStep, pipeline: Pipeline, settings: Settings) -> bool:
    """True where a pod that is taken away may have saved nothing for long, as far as the parameters say."""
    if not isinstance(step.cluster.spot, Spot) or num_nodes(step, settings):
        return False
    if not is_our_training(step):
        return True
    texts = (way.text("checkpoint_every") for way in ways(step, pipeline.parameters))
    return any(text is not None and is_longer(text, _OFTEN_SECONDS) for text in texts)


def _registry(step: Step, settings: Settings) -> str | None:
    """The registry that a step asks, empty where none is set; None of a step that asks none."""
    if isinstance(step, RegisterStep):
        return settings.registry or ""
    if not isinstance(step, JobStep) or not isinstance(given := step.parameters.get("registry"), str):
        return None
    return str(step.environment.get(REGISTRY_VARIABLE) or settings.registry or "") if given == "auto" else given


def _is_lost(registry: str | None, settings: Settings, step: str) -> bool:
    """True for a registry in a folder of the pod, and not of a claim that is mounted there."""
    kind, _, place = (registry or "local").partition(":")
    mounted = volumes_of(settings, step) if step else {}
    return kind == "local" and not any(f"{place}/".startswith(f"{folder}/") for folder in mounted)


def _storage(step: Step, pipeline: Pipeline, settings: Settings) -> Iterator[Problem]:
    """Data in other buckets: there Pipelines' launcher addresses storage as AWS's, whatever the platform says."""
    given: dict[str, Any] = dict(step.inputs) if isinstance(step, JobStep) else {}
    if isinstance(step, RegisterStep):
        given = {name: getattr(step, name) for name in ("model", "metrics", "evaluation", "decision")}
    defaults = {each.name: each.default for each in pipeline.parameters}
    for name, value in given.items():
        place = defaults.get(value.name) if isinstance(value, ParameterRef) else value
        if isinstance(place, str) and place.startswith("s3://") and _bucket(place) != _bucket(settings.root):
            yield Problem(
                step.name,
                name if isinstance(step, RegisterStep) else f"inputs.{name}",
                f"{place} is in another bucket than root, and with s3_endpoint Kubeflow Pipelines reads root's alone. "
                f"Copy it to s3://{_bucket(settings.root)}/.",
            )


def _bucket(uri: str) -> str:
    return uri.removeprefix("s3://").partition("/")[0]
