"""The requests of a step's pod to the cluster: the executor's resources, and its part of the platform's spec."""

from __future__ import annotations

from typing import Any

from drivetrain.catalog.instances import DEFAULT_TYPE, GIB, find_instance
from drivetrain.spec.resources import Resources, Spot
from drivetrain.spec.steps import JobStep, TrainingStep
from drivetrain.targets.kubeflow.compile.mounts import (
    CHECKPOINTS,
    claim_mount,
    secret_named,
    secret_variables,
    store_keys,
)
from drivetrain.targets.kubeflow.settings import Pod, Settings

Json = dict[str, Any]

# A node keeps a part of its machine for itself: a pod that asks for all of it is never scheduled.
CPU_SHARE, MEMORY_SHARE = 0.9, 0.85
# A small step asks for this, and may use what its node has free.
SMALL = Resources(cpu=1, memory_gib=2)


def resources_of(step: JobStep, settings: Settings) -> Resources:
    """The requests of a step: what the settings say of it; its own resources; or what a machine of its instance type
    would give a pod.

    A step that trains nothing and names no machine, or the default one, is small. A training that names none asks for
    nothing, as does a step whose instance type is a parameter, or is not in the table.
    """
    own = settings.steps.get(step.name, Pod())
    return _replaced(_from_pipeline(step, settings.pods), own)


def _from_pipeline(step: JobStep, pods: Pod) -> Resources:
    if step.cluster.resources is not None:
        return step.cluster.resources
    kind = step.cluster.instance_type
    if not isinstance(step, TrainingStep) and kind in (None, DEFAULT_TYPE):
        return _replaced(SMALL, pods)
    machine = find_instance(kind) if isinstance(kind, str) else None
    if machine is None:
        return Resources()
    return Resources(
        cpu=round(machine.vcpus * CPU_SHARE, 1),
        memory_gib=round(machine.memory / GIB * MEMORY_SHARE, 1),
        accelerators=machine.gpus,
    )


def _replaced(resources: Resources, pod: Pod) -> Resources:
    """Replace resources by those that the settings give."""
    given = {name: getattr(pod, name) for name in ("cpu", "memory_gib") if getattr(pod, name) is not None}
    return resources.model_copy(update=given)


def requests_of(resources: Resources) -> dict[str, str]:
    """CPUs and memory as quantities of Kubernetes: a whole number of Gi, or of Mi."""
    found: dict[str, str] = {}
    if resources.cpu is not None:
        found["cpu"] = f"{resources.cpu:g}"
    if (gib := resources.memory_gib) is not None:
        found["memory"] = f"{gib:g}Gi" if float(gib).is_integer() else f"{round(gib * 1024)}Mi"
    return found


def executor_resources(resources: Resources) -> Json:
    """The executor's ResourceSpec: requests, and the accelerators as a limit; empty where nothing is asked for."""
    found: Json = {f"resource{name.title()}Request": value for name, value in requests_of(resources).items()}
    if resources.accelerators:
        found["accelerator"] = {
            "resourceCount": str(resources.accelerators),
            "resourceType": resources.accelerator_type,
        }
    return found


def platform_of(step: JobStep | None, settings: Settings, *, checkpoints: bool) -> Json:
    """An executor's part of the Kubernetes platform spec.

    Args:
        step: None of a task of our own, which asks for no machine.
        checkpoints: whether the claim for checkpoints is mounted.
    """
    found: Json = {}
    resources = Resources() if step is None else resources_of(step, settings)
    spot = step is not None and isinstance(step.cluster.spot, Spot)
    labels = node_labels(settings, resources, spot=spot)
    if settings.image_pull_policy is not None:
        found["imagePullPolicy"] = settings.image_pull_policy
    if settings.image_pull_secret is not None:
        found["imagePullSecret"] = [secret_named(settings.image_pull_secret)]
    if labels:
        found["nodeSelector"] = {"labels": labels}
    if checkpoints and settings.checkpoint_claim is not None:
        found["pvcMount"] = [claim_mount(settings.checkpoint_claim, CHECKPOINTS)]
    if keys := store_keys(settings):
        found["secretAsEnv"] = secret_variables(keys)
    if tolerated := tolerations(settings, resources, spot=spot):
        found["tolerations"] = tolerated
    return found


def node_labels(settings: Settings, resources: Resources, *, spot: bool) -> dict[str, str]:
    """Labels of the nodes on which a step's pods may run, sorted."""
    labels = {**settings.node_selector, **(settings.spot_node_selector if spot else {}), **resources.node_selector}
    return dict(sorted(labels.items()))


def tolerations(settings: Settings, resources: Resources, *, spot: bool) -> list[Json]:
    """The tolerations of a step's pods, in Kubernetes' form."""
    taints = {**(settings.spot_tolerations if spot else {}), **resources.tolerations}
    return [
        {"key": key, "operator": "Equal", "value": value} if value else {"key": key, "operator": "Exists"}
        for key, value in sorted(taints.items())
    ]
