"""How often the platform tries a step again.

It tries again whatever a task failed of; a task of ours that failed for a reason that another attempt does not change
ends at once when it is tried again (drivetrain/steps/kubeflow/__main__.py). Whether it tries again at all is up to two
settings of an administrator's, which NOTE names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.resources import RetryPolicy, Spot
from drivetrain.spec.steps import BaseStep, JobStep, RegisterStep
from drivetrain.targets.kubeflow.compile.train_job import num_nodes
from drivetrain.targets.kubeflow.settings import Settings, settings_of

Json = dict[str, Any]
# A pod on a spot node is taken away, and so may be the pod that follows a TrainJob: another attempt goes on from there.
_GOES_ON = RetryPolicy(causes=("service_error",), max_attempts=3, interval_seconds=30, backoff_rate=1)
_SPOT_ATTEMPTS = 20
# Argo ends an attempt, and tries no more, so long after the first one began. Left out, it never tries again.
_PATIENCE_SECONDS = 172_800
NOTE = (
    "Kubeflow Pipelines 2.17 as installed does not retry a program that fails. An administrator sets this once for the "
    "workflow controller: no retryStrategy in templateDefaults, and ARGO_POD_STATUS_CAPTURE_FINALIZER=true "
    "(docs/kubeflow_pipelines.md)."
)


def are_needed(pipeline: Pipeline) -> bool:
    """True where a step of the pipeline relies on being tried again, so that NOTE concerns it."""
    settings = settings_of(pipeline.deployment)
    return any(policies_of(step, settings) for step in Graph(pipeline).steps)


def policies_of(step: BaseStep | None, settings: Settings) -> tuple[RetryPolicy, ...]:
    """A step's own, or what it needs to go on after its pod was lost."""
    if not isinstance(step, JobStep | RegisterStep):
        return ()
    if step.retry or not isinstance(step, JobStep):
        return step.retry
    spot, nodes = step.cluster.spot, num_nodes(step, settings)
    if isinstance(spot, Spot) and not nodes:
        return (_GOES_ON.model_copy(update={"max_attempts": spot.max_interruptions or _SPOT_ATTEMPTS}),)
    return (_GOES_ON,) if nodes else ()


def most_patient(policies: Sequence[RetryPolicy]) -> RetryPolicy:
    """The policy that counts if the platform takes only one."""
    return max(policies, key=lambda policy: policy.max_attempts)


def retry_policy(policies: Sequence[RetryPolicy], longest_attempt: int = 0) -> Json:
    """A task's retryPolicy.

    Args:
        longest_attempt: how long one attempt may run, in seconds.
    """
    most = most_patient(policies)
    patience = max(_PATIENCE_SECONDS, (most.max_attempts + 1) * (longest_attempt + most.interval_seconds))
    return {
        "backoffDuration": f"{most.interval_seconds}s",
        "backoffFactor": most.backoff_rate,
        "backoffMaxDuration": f"{patience}s",
        "maxRetryCount": most.max_attempts,
    }
