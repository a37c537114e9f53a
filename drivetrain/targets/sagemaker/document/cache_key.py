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

from drivetrain.targets.sagemaker.document.step_types import step_type

# Of the attributes that are objects, the parts that count, where not all of them do.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "AutoMLJobConfig": ("CandidateGenerationConfig", "CompletionCriteria", "DataSplitConfig", "Mode"),
    "TrainingJobDefinition": (
        "AlgorithmSpecification",
        "HyperParameterRanges",
        "InputDataConfig",
        "StaticHyperParameters",
        "TuningObjective",
    ),
}


def key_fields(type_name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The attributes of a step's arguments that make the key; None for a type without known ones."""
    names = step_type(type_name).key
    return None if names is None else {name: _counted(name, arguments[name]) for name in names if name in arguments}


def _counted(attribute: str, value: Any) -> Any:
    parts = _PARTS.get(attribute)
    if parts is None or not isinstance(value, Mapping):
        return value
    given = cast("Mapping[str, Any]", value)
    return {name: given[name] for name in parts if name in given}


def compared(type_name: str, step: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of a step as a definition has it: of a type without known attributes all its arguments."""
    arguments: Mapping[str, Any] = step.get("Arguments") or {}
    known = key_fields(type_name, arguments)
    beside = {name: step[name] for name in step_type(type_name).key_fields if name in step}
    return {"Arguments": arguments if known is None else known, **beside}


def counts(type_name: str, place: Sequence[Any]) -> bool:
    """Whether what stands at a place in a step is of what is compared; the step as a whole is."""
    if not place:
        return True
    root, *rest = place
    if root != "Arguments":
        return root in step_type(type_name).key_fields
    names = step_type(type_name).key
    if names is None or not rest:
        return True
    parts = _PARTS.get(rest[0])
    return rest[0] in names and (parts is None or len(rest) == 1 or rest[1] in parts)


def key_of(type_name: str, fields: Mapping[str, Any]) -> str:
    """The sha256 of the key attributes."""
    text = json.dumps([type_name, fields], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
