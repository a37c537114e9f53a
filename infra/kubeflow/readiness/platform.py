"""Checks of what an administrator sets once: the workflow controller, Kubeflow Trainer and its runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from drivetrain.infra.kubeflow.needs import own_runtimes
from drivetrain.infra.kubeflow.notes import (
    CONFIG_MAP,
    CONTROLLER,
    FINALIZER,
    INSTALL_RUNTIMES,
    keep_pods,
    no_template_defaults,
)
from drivetrain.infra.kubeflow.readiness.place import Finding, Place, fails, mapping, ok

# Fields of a TrainJob that Trainer below 2.3, 2.2 drop.
_PODS = "spec.runtimePatches.trainingRuntimeSpec.template.spec.replicatedJobs.template.spec.template.spec"
_FIELDS = ("spec.activeDeadlineSeconds", "spec.runtimePatches", f"{_PODS}.terminationGracePeriodSeconds")


def template_defaults(place: Place) -> Iterator[Finding]:
    """The workflow controller takes the pipeline's own word on which failures are repeated."""
    if not place.needs.repeats:
        return
    found = place.cluster.get("configmap", CONFIG_MAP, place.platform)
    if found is None:
        yield ok(f"no ConfigMap {CONFIG_MAP} in {place.platform}")
        return
    data: dict[str, str] = found.get("data") or {}
    # Each setting has an entry, or all are in one.
    defaults = mapping(data.get("templateDefaults")) or mapping(mapping(data.get("config")).get("templateDefaults"))
    if policy := defaults.get("retryStrategy"):
        said = f"templateDefaults of {CONFIG_MAP} has retryStrategy {policy}, in place of what pipelines say"
        yield fails(f"{said}: a program that ends with an error is not tried again", no_template_defaults(place.needs))
    else:
        yield ok(f"{CONFIG_MAP} has no retryStrategy")


def pod_status(place: Place) -> Iterator[Finding]:
    """A pod that is deleted counts as failed, so that its step is tried again."""
    if not place.needs.repeats:
        return
    found = place.cluster.get("deployment", CONTROLLER, place.platform)
    if found is None:
        yield fails(f"there is no Deployment {CONTROLLER} in {place.platform}", "Set infrastructure.platform_namespace")
        return
    containers = found["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for container in containers for each in container.get("env", ())}
    if variables.get(FINALIZER) == "true":
        yield ok(f"{CONTROLLER} has {FINALIZER}=true")
    else:
        said = f"{CONTROLLER} has no {FINALIZER}=true: a step whose pod is lost may not be tried again"
        yield fails(said, keep_pods(place.needs))


def trainer(place: Place) -> Iterator[Finding]:
    """Kubeflow Trainer is there, and keeps all that a TrainJob of ours says."""
    if not place.needs.makes_train_jobs:
        return
    found = place.cluster.get("customresourcedefinition", "trainjobs.trainer.kubeflow.org")
    mend = "Install Kubeflow Trainer 2.3.0 or newer (https://www.kubeflow.org/docs/components/trainer/operator-guides/)"
    if found is None:
        yield fails("Kubeflow Trainer v2 is not installed", mend)
        return
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    if missing := [field for field in _FIELDS if not _has(schema, field.split("."))]:
        yield fails(f"this Kubeflow Trainer drops of TrainJobs: {', '.join(each[-60:] for each in missing)}", mend)
    else:
        yield ok("Kubeflow Trainer is 2.3 or newer, by the fields of its TrainJobs")


def runtimes(place: Place) -> Iterator[Finding]:
    """The runtimes that trainings use are there."""
    ours, trainer = own_runtimes(place.needs), place.needs.settings.trainer
    for name in sorted({getattr(trainer, framework) for framework in place.needs.frameworks}):
        if place.cluster.get("clustertrainingruntime", name) is not None:
            yield ok(f"{name} is there")
        else:
            mend = f"{place.write} && kubectl apply -f build/infra/runtimes.yaml" if name in ours else INSTALL_RUNTIMES
            yield fails(f"there is no ClusterTrainingRuntime {name!r}", mend)


def _has(schema: Any, path: Sequence[str]) -> bool:
    """True where a schema knows a field; items of lists are gone into."""
    for name in path:
        schema = schema.get("items", schema).get("properties", {}).get(name)
        if schema is None:
            return False
    return True
