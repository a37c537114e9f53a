"""A training on several nodes as the spec of a TrainJob (Kubeflow Trainer v2), which its task creates.

What only the task knows (its inputs, its run, its name) is added there: drivetrain/steps/kubeflow/train_job.py. What a
TrainJob cannot say is the runtime's: pull policy, gang scheduling, and how its JobSet and Jobs restart, on which we do
not rely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.spec.resources import Resources, Spot
from drivetrain.spec.steps import JobStep, TrainingStep
from drivetrain.steps import START_KUBEFLOW_NODE
from drivetrain.targets.assets.assets import Code
from drivetrain.targets.kubeflow.compile.frameworks import framework_of
from drivetrain.targets.kubeflow.compile.machines import node_labels, resources_of, tolerations
from drivetrain.targets.kubeflow.compile.mounts import CHECKPOINTS, secrets_of, volumes_of
from drivetrain.targets.kubeflow.settings import Settings

Json = dict[str, Any]
GROUP, RUNTIME = "trainer.kubeflow.org", "ClusterTrainingRuntime"
# The owner of our entry among the patches, a path with a domain's prefix.
MANAGER = "drivetrain/task"
# The replicated job of Trainer's runtimes in which the training runs, and the container in it.
NODE = "node"


def num_nodes(step: JobStep) -> int:
    """The nodes of a step that runs as a TrainJob; 0 of one that runs in the task's own pod."""
    count = step.cluster.count
    return count if isinstance(step, TrainingStep) and isinstance(count, int) and count > 1 else 0


def train_job_of(
    step: TrainingStep, settings: Settings, *, image: str, code: Code, environment: Mapping[str, str]
) -> Json:
    """What a task's document says of its TrainJob.

    Args:
        environment: of every container of the pipeline.
    """
    resources = resources_of(step)
    runtime: str = getattr(settings.trainer, framework_of(step))
    trainer: Json = {
        "image": image,
        "command": ["python3", "-c", START_KUBEFLOW_NODE],
        "args": [code.start_sha256, code.sha256],
        "numNodes": num_nodes(step),
        # Said, since `auto` is a process a core where there is no GPU.
        "numProcPerNode": step.cluster.processes or max(1, resources.accelerators),
        "env": [{"name": name, "value": value} for name, value in environment.items()] + _secrets(settings, step),
    }
    if asked := _resources(resources):
        trainer["resourcesPerNode"] = asked
    pod = _pod(step, settings, resources)
    spec: Json = {
        "runtimeRef": {"apiGroup": GROUP, "kind": RUNTIME, "name": runtime},
        "trainer": trainer,
        "activeDeadlineSeconds": step.cluster.max_run_seconds,
    }
    if pod:
        job: Json = {"name": NODE, "template": {"spec": {"template": {"spec": pod}}}}
        template: Json = {"template": {"spec": {"replicatedJobs": [job]}}}
        spec["runtimePatches"] = [{"manager": MANAGER, "trainingRuntimeSpec": template}]
    told: Json = {"spec": spec, "start_seconds": settings.trainer.start_seconds, "keep": settings.trainer.keep}
    if isinstance(step.cluster.spot, Spot):
        told["restart_seconds"] = step.cluster.spot.max_wait_seconds
    return told


def _secrets(settings: Settings, step: TrainingStep) -> list[Json]:
    """Variables whose values are entries of Secrets."""
    found: dict[str, str] = {}
    if settings.s3_secret is not None:
        found = {name: f"{settings.s3_secret}/{name}" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    entries = {name: each.split("/", 1) for name, each in {**found, **secrets_of(settings, step.name)}.items()}
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for name, (secret, key) in sorted(entries.items())
    ]


def _resources(resources: Resources) -> Json:
    requests: Json = {}
    if resources.cpu is not None:
        requests["cpu"] = f"{resources.cpu:g}"
    if resources.memory_gib is not None:
        requests["memory"] = f"{resources.memory_gib:g}Gi"
    found: Json = {"requests": requests} if requests else {}
    if resources.accelerators:
        found["limits"] = {resources.accelerator_type: str(resources.accelerators)}
    return found


def _pod(step: TrainingStep, settings: Settings, resources: Resources) -> Json:
    """What is patched in the runtime's pods."""
    spot = isinstance(step.cluster.spot, Spot)
    found: Json = {}
    if labels := node_labels(settings, resources, spot=spot):
        found["nodeSelector"] = labels
    if tolerated := tolerations(settings, resources, spot=spot):
        found["tolerations"] = tolerated
    if settings.image_pull_secret is not None:
        found["imagePullSecrets"] = [{"name": settings.image_pull_secret}]
    if settings.service_account is not None:
        found["serviceAccountName"] = settings.service_account
    if step.checkpoint is not None:
        found["terminationGracePeriodSeconds"] = settings.trainer.grace_seconds
    claims = volumes_of(settings, step.name)
    if step.checkpoint is not None and step.checkpoint.uri is None and settings.checkpoint_claim is not None:
        claims = {**claims, CHECKPOINTS: settings.checkpoint_claim}
    if claims:
        names = {claim: f"claim-{number}" for number, claim in enumerate(sorted(set(claims.values())))}
        found["volumes"] = [
            {"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in names.items()
        ]
        mounts = [{"name": names[claim], "mountPath": folder} for folder, claim in sorted(claims.items())]
        found["containers"] = [{"name": NODE, "volumeMounts": mounts}]
    return found
