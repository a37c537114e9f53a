"""Retry policies: those of authors, and the service's JSON of them."""

from __future__ import annotations

from typing import Any, cast

from drivetrain.base.errors import SpecError
from drivetrain.base.json_text import list_in
from drivetrain.native.table import OBJECT, OBJECTS, Call, Spelling
from drivetrain.spec.resources import RetryCause, RetryPolicy

# https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-retry-policy.html
EXCEPTIONS: dict[RetryCause, str] = {
    "service_error": "Step.SERVICE_FAULT",
    "throttling": "Step.THROTTLING",
    "job_error": "SageMaker.JOB_INTERNAL_ERROR",
    "no_capacity": "SageMaker.CAPACITY_ERROR",
    "quota": "SageMaker.RESOURCE_LIMIT",
}
_CAUSES: dict[str, RetryCause] = {exception: cause for cause, exception in EXCEPTIONS.items()}


def retry_fields(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "ExceptionType": [EXCEPTIONS[cause] for cause in policy.causes],
        "IntervalSeconds": policy.interval_seconds,
        "BackoffRate": policy.backoff_rate,
        "MaxAttempts": policy.max_attempts,
    }


def _read(json: dict[str, Any]) -> Any:
    """A policy of authors where it gives this JSON; else the JSON."""
    try:
        policy = RetryPolicy(
            causes=tuple(_CAUSES[each] for each in list_in(json, "ExceptionType")),
            max_attempts=json["MaxAttempts"],
            interval_seconds=json["IntervalSeconds"],
            backoff_rate=json["BackoffRate"],
        )
    except (KeyError, TypeError, SpecError):
        return json
    if retry_fields(policy) != json:
        return json
    usual = RetryPolicy(causes=policy.causes)
    more = {name: value for name, value in vars(policy).items() if value != getattr(usual, name)}
    return Call("RetryPolicy", (), {"causes": policy.causes, **more})


def _written(given: Any) -> list[dict[str, Any]]:
    listed = cast("list[Any]", given) if isinstance(given, list | tuple) else OBJECTS.write(given)
    return [retry_fields(each) if isinstance(each, RetryPolicy) else OBJECT.write(each) for each in listed]


RETRIES = Spelling("a list of RetryPolicy(...)", _written, lambda json: [_read(each) for each in OBJECTS.read(json)])
