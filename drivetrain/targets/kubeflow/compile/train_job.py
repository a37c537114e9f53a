"""A training on several nodes as the spec of a TrainJob (Kubeflow Trainer v2), which its task creates.

What only the task knows (its inputs, its run, its name) is added there: drivetrain/steps/kubeflow/train_job.py. What a
TrainJob cannot say is the runtime's: pull policy, gang scheduling, and how its JobSet and Jobs restart, on which we do
not rely.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from drivetrain.assets.assets import Code
from drivetrain.catalog.strategies import read_strategy, strategy_names
from drivetrain.spec.resources import Resources, Spot
from drivetrain.spec.steps import BaseStep, TrainingStep, is_our_training
from drivetrain.steps import START_KUBEFLOW_NODE
from drivetrain.targets.kubeflow.compile.machines import node_labels, requests_of, resources_of, tolerations
from drivetrain.targets.kubeflow.compile.mounts import (
    CHECKPOINTS,
    metadata_of,
    secret_environment,
    secrets_of,
    store_keys,
    variables_of,
    volumes_of,
)
from drivetrain.targets.kubeflow.settings import Settings

Json = dict[str, Any]
GROUP, RUNTIME = "trainer.kubeflow.org", "ClusterTrainingRuntime"
# The owner of our entry among the patches, a path with a domain's prefix.
MANAGER = "drivetrain/task"
# The replicated job of Trainer's runtimes in which the training runs, and the container in it.
NODE = "node"
# The names of the fields of the settings' `trainer`.
Framework = Literal["mpi", "tensorflow", "torch"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
# The launchers of trainings that torchrun does not start (docs/launcher.md).
_LAUNCHERS: dict[object, Framework] = {"mpirun": "mpi", "tf_config": "tensorflow"}


def num_nodes(step: BaseStep, settings: Settings) -> int:
    """The nodes of a step that runs as a TrainJob; 0 of one that runs in the task's own pod."""
    if not isinstance(step, TrainingStep) or not isinstance(count := step.cluster.count, int):
        return 0
    kinds = ("spot", "always") if isinstance(step.cluster.spot, Spot) else ("always",)
    return count if count > 1 or settings.trainer.one_node in kinds else 0


def framework_of(step: TrainingStep) -> Framework:
    """By the parameter `launcher`, or the variable DRIVETRAIN_LAUNCHER; where neither is given, by the strategy."""
    launcher = step.parameters.get("launcher") or step.environment.get("DRIVETRAIN_LAUNCHER")
    strategy = step.parameters.get("strategy")
    if launcher is None and is_our_training(step) and strategy in strategy_names():
        return "tensorflow" if read_strategy(str(strategy)).framework == "tensorflow" else "torch"
    return _LAUNCHERS.get(launcher, "torch")


def train_job_of(step: TrainingStep, settings: Settings, *, image: str, code: Code) -> Json:
    """The entry for the TrainJob in a task's document."""
    resources = resources_of(step, settings)
    runtime: str = getattr(settings.trainer, framework_of(step))
    trainer: Json = {
        "image": image,
        "command": ["python3", "-c", START_KUBEFLOW_NODE],
        "args": [code.start_sha256, code.sha256],
        "numNodes": num_nodes(step, settings),
        # Said, since `auto` is a process a core where there is no GPU.
        "numProcPerNode": step.cluster.processes or max(1, resources.accelerators),
        "env": variables(settings, step),
    }
    if asked := _resources(resources):
        trainer["resourcesPerNode"] = asked
    pod = _pod(step, settings, resources)
    spec: Json = {
        "runtimeRef": {"apiGroup": GROUP, "kind": RUNTIME, "name": runtime},
        "trainer": trainer,
        "activeDeadlineSeconds": step.cluster.max_run_seconds,
    }
    metadata = metadata_of(settings, step.name)
    if pod or metadata:
        patched: Json = {**({"metadata": metadata} if metadata else {}), **({"spec": pod} if pod else {})}
        job: Json = {"name": NODE, "template": {"spec": {"template": patched}}}
        template: Json = {"template": {"spec": {"replicatedJobs": [job]}}}
        spec["runtimePatches"] = [{"manager": MANAGER, "trainingRuntimeSpec": template}]
    told: Json = {"spec": spec, "start_seconds": settings.trainer.start_seconds, "keep": settings.trainer.keep}
    for name in ("annotations", "labels"):
        if given := getattr(settings.trainer, name):
            told[name] = dict(sorted(given.items()))
    if step.retry:
        told["repeats"] = max(policy.max_attempts for policy in step.retry)
    if isinstance(step.cluster.spot, Spot):
        told["restart_seconds"] = step.cluster.spot.max_wait_seconds
    return told


def variables(settings: Settings, step: TrainingStep) -> list[Json]:
    """Variables of every container; variables from Secrets take precedence."""
    secrets = {**store_keys(settings), **secrets_of(settings, step.name)}
    plain = [{"name": name, "value": value} for name, value in variables_of(settings).items() if name not in secrets]
    return plain + secret_environment(secrets)


def _resources(resources: Resources) -> Json:
    found: Json = {"requests": requests} if (requests := requests_of(resources)) else {}
    if resources.accelerators:
        found["limits"] = {resources.accelerator_type: str(resources.accelerators)}
    return found


def _pod(step: TrainingStep, settings: Settings, resources: Resources) -> Json:
    """The fields that are patched in the runtime's pods."""
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
        # A volume a folder: mounts of a container have different names in a TrainJob's patches.
        volumes = [(f"claim-{number}", *each) for number, each in enumerate(sorted(claims.items()))]
        found["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, _, claim in volumes]
        mounts = [{"name": name, "mountPath": folder} for name, folder, _ in volumes]
        found["containers"] = [{"name": NODE, "volumeMounts": mounts}]
    return found
