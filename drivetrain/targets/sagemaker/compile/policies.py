"""Caching and retrying of steps, as the service spells them."""

from __future__ import annotations

from typing import Any

from drivetrain.spec.resources import CachePolicy, RetryCause, RetryPolicy

Json = dict[str, Any]
# https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-retry-policy.html
EXCEPTIONS: dict[RetryCause, str] = {
    "service_error": "Step.SERVICE_FAULT",
    "throttling": "Step.THROTTLING",
    "job_error": "SageMaker.JOB_INTERNAL_ERROR",
    "no_capacity": "SageMaker.CAPACITY_ERROR",
    "quota": "SageMaker.RESOURCE_LIMIT",
}


def cache_fields(policy: CachePolicy) -> Json:
    if not policy.enabled:
        return {}
    config: Json = {"Enabled": True}
    if policy.expire_after:
        config["ExpireAfter"] = policy.expire_after
    return {"CacheConfig": config}


def retry_fields(policy: RetryPolicy) -> Json:
    return {
        "ExceptionType": [EXCEPTIONS[cause] for cause in policy.causes],
        "IntervalSeconds": policy.interval_seconds,
        "BackoffRate": policy.backoff_rate,
        "MaxAttempts": policy.max_attempts,
    }
