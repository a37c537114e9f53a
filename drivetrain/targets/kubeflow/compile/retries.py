"""How often the platform tries a step again.

It tries again whatever a task failed of; a task of ours that failed for a reason that another attempt does not change
ends at once when it is tried again (drivetrain/steps/kubeflow/earlier.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drivetrain.spec.resources import RetryPolicy, Spot
from drivetrain.spec.steps import BaseStep, JobStep, RegisterStep
from drivetrain.targets.kubeflow.compile.train_job import num_nodes

Json = dict[str, Any]
# A pod on a spot node is taken away, and so may be the one that follows a TrainJob: another attempt goes on from there.
_GOES_ON = RetryPolicy(causes=("service_error",), max_attempts=3, interval_seconds=30)
_SPOT_ATTEMPTS = 20


def policies_of(step: BaseStep | None) -> tuple[RetryPolicy, ...]:
    """A step's own, or what it needs to go on after its pod was lost."""
    if not isinstance(step, JobStep | RegisterStep):
        return ()
    if step.retry or not isinstance(step, JobStep):
        return step.retry
    spot = step.cluster.spot
    if isinstance(spot, Spot) and not num_nodes(step):
        return (_GOES_ON.model_copy(update={"max_attempts": spot.max_interruptions or _SPOT_ATTEMPTS}),)
    return (_GOES_ON,) if num_nodes(step) else ()


def most_patient(policies: Sequence[RetryPolicy]) -> RetryPolicy:
    """The one that counts, where the platform takes one."""
    return max(policies, key=lambda policy: policy.max_attempts)


def retry_policy(policies: Sequence[RetryPolicy]) -> Json:
    """A task's retryPolicy."""
    most = most_patient(policies)
    return {
        "backoffDuration": f"{most.interval_seconds}s",
        "backoffFactor": most.backoff_rate,
        "backoffMaxDuration": "3600s",
        "maxRetryCount": most.max_attempts,
    }
