"""What the cache compares of a step: its key attributes.

A step's result is taken from an earlier execution in which these were equal; outputs, instance types and the role do
not count.
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-default-keys.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

KEY_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "Processing": ("AppSpecification", "Environment", "ProcessingInputs"),
    "Training": (
        "AlgorithmSpecification",
        "CheckpointConfig",
        "DebugHookConfig",
        "DebugRuleConfigurations",
        "Environment",
        "HyperParameters",
        "InputDataConfig",
    ),
    "Tuning": ("HyperParameterTuningJobConfig", "TrainingJobDefinition", "TrainingJobDefinitions"),
}
# Of the attributes that are objects, the parts that count, where not all of them do.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "TrainingJobDefinition": (
        "AlgorithmSpecification",
        "HyperParameterRanges",
        "InputDataConfig",
        "StaticHyperParameters",
        "TuningObjective",
    ),
}


def key_fields(type_name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The attributes of a step's arguments that make the key; None for a type that is not cached."""
    names = KEY_ATTRIBUTES.get(type_name)
    return None if names is None else {name: _counted(name, arguments[name]) for name in names if name in arguments}


def _counted(attribute: str, value: Any) -> Any:
    parts = _PARTS.get(attribute)
    if parts is None or not isinstance(value, Mapping):
        return value
    given = cast("Mapping[str, Any]", value)
    return {name: given[name] for name in parts if name in given}


def counts(type_name: str, place: Sequence[Any]) -> bool:
    """Whether what stands at a place in a step's arguments is of the key; of a type without known ones all is."""
    names = KEY_ATTRIBUTES.get(type_name)
    if names is None or not place:
        return True
    parts = _PARTS.get(place[0])
    return place[0] in names and (parts is None or len(place) == 1 or place[1] in parts)


def key_of(type_name: str, fields: Mapping[str, Any]) -> str:
    """The sha256 of the key attributes."""
    text = json.dumps([type_name, fields], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
