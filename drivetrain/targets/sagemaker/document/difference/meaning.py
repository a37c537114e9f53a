"""When two spellings of a definition mean the same, so that only what matters counts as a difference.

Left out is: what the service assumes where nothing is written, null where its SDK writes null for nothing, an empty
list or map of things that are listed one by one. The order of keys never matters. Text never equals a number. Values
that a step passes to the user's own program (the payload of a Lambda or a Callback, the arguments of an unknown step
type) are taken as they are written.
"""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.spec.durations import seconds

# What stands for the field of an entry of DependsOn.
EDGE = "DependsOn[]"
# Fields that list things, and their types: an empty list or dict equals an absent one.
COLLECTIONS: dict[str, type[dict[str, Any]] | type[list[Any]]] = {
    "DependsOn": list,
    "Environment": dict,
    "HyperParameters": dict,
    "InputDataConfig": list,
    "Metadata": dict,
    "MetricDefinitions": list,
    "OutputParameters": list,
    "Parameters": list,
    "ProcessingInputs": list,
    "PropertyFiles": list,
    "RetryPolicies": list,
    "StaticHyperParameters": dict,
    "Tags": list,
}
# What the API reference says is assumed (CreateTrainingJob, CreateProcessingJob, CreateTransformJob,
# CreateHyperParameterTuningJob; the flags are optional booleans).
_DEFAULTS: dict[str, Json] = {
    "AppManaged": False,
    "CacheConfig": {"Enabled": False},
    "CompressionType": "None",
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
    "EnableNetworkIsolation": False,
    "InputFilter": "$",
    "JoinSource": "None",
    "OutputFilter": "$",
    "RecordWrapperType": "None",
    "S3CompressionType": "None",
    "SplitType": "None",
    "TrainingJobEarlyStoppingType": "Off",
}
# Of a retry policy (step_fields.Retry); MaxAttempts only where no time bounds the attempts.
_RETRY_DEFAULTS: dict[str, Json] = {"IntervalSeconds": 1, "BackoffRate": 2.0}


def says_nothing(value: Json, field: str) -> bool:
    """Return True if a field of this value means the same as an absent field."""
    if value is None or (field in COLLECTIONS and isinstance(value, dict | list) and not value):
        return True
    return field in _DEFAULTS and equal(value, _DEFAULTS[field])


def equal(one: Json, other: Json) -> bool:
    """Return True if two values are the same JSON: 1 is 1.0, but neither true nor "1"."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(key in other and equal(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(equal(value, given) for value, given in zip(one, other, strict=True))
        )
    return one == other


def spelled_differently(old: Json, new: Json, field: str) -> bool:
    """Return True if two unequal values of a field mean the same."""
    if field == "ExpireAfter" and isinstance(old, str) and isinstance(new, str):
        try:
            return seconds(old) == seconds(new)
        except UserError:
            return False
    if field == EDGE:
        return equal(_edge(old), _edge(new))
    if field == "RetryPolicies" and isinstance(old, list) and isinstance(new, list):
        return equal([_retry(policy) for policy in old], [_retry(policy) for policy in new])
    return False


def _edge(entry: Json) -> Json:
    if not isinstance(entry, dict):
        return {"Step": entry}
    return {key: value for key, value in entry.items() if value is not None}


def _retry(policy: Json) -> Json:
    if not isinstance(policy, dict):
        return policy
    given = {key: value for key, value in policy.items() if value is not None}
    filled = {**_RETRY_DEFAULTS, **given}
    if "ExpireAfterMin" not in filled:
        filled.setdefault("MaxAttempts", 5)
    return filled
