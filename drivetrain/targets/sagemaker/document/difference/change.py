"""One difference between two definitions: where, what it was, what it is now."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, get_args

from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.place import Place, Position


class Absent(Enum):
    """The stand-in for a missing value, since null is a value of JSON."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
Value: TypeAlias = "Json | Literal[Absent.ABSENT]"

Kind = Literal[
    "step",
    "edge",
    "parameter",
    "hyperparameter",
    "argument",
    "instance",
    "image",
    "code",
    "data",
    "environment",
    "condition",
    "cache",
    "retry",
    "text",
    "order",
    "other",
]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Change:
    """A difference at one place; `old` or `new` is ABSENT if the place is only in the other definition."""

    place: Place
    old: Any
    """A JSON value, or ABSENT."""
    new: Any
    """A JSON value, or ABSENT."""
    kind: Kind = "other"

    @property
    def step(self) -> str | None:
        """The step that it belongs to."""
        if len(self.place) > 1 and self.place[0] in (places.STEPS, places.BRANCHES):
            return str(self.place[1])
        return None

    @property
    def where(self) -> str:
        """The place as text."""
        return places.text(self.place)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; what is ABSENT is left out of it."""
        written: dict[str, Any] = {"place": self.where, "kind": self.kind}
        if self.old is not ABSENT:
            written["old"] = self.old
        if self.new is not ABSENT:
            written["new"] = self.new
        return written


def kind_of(place: Place, old: Value, new: Value) -> Kind:
    """The kind of a change that puts `new` in the place of `old`."""
    kind = _of_place(place)
    if kind in ("argument", "condition", "retry") or not (isinstance(old, list) and isinstance(new, list)):
        return kind
    return "order" if len(old) == len(new) and _reordered(old, new) else kind


def _of_place(place: Place) -> Kind:
    names = [segment for segment in place if not isinstance(segment, Position)]
    root = names[0] if names else ""
    if root == places.PARAMETERS:
        return "parameter"
    if root == places.BRANCHES:
        return "edge"
    if root != places.STEPS:
        return "step" if place == (places.DEFINITION, "Steps") else "other"
    if len(names) == 2:
        return "step"
    return _in_a_step(names[2:])


_OF_FIELD: dict[str, Kind] = {
    "DependsOn": "edge",
    "CacheConfig": "cache",
    "RetryPolicies": "retry",
    "RetryStrategy": "retry",
    "DisplayName": "text",
    "Description": "text",
    "Conditions": "condition",
    "HyperParameters": "hyperparameter",
    "StaticHyperParameters": "hyperparameter",
    "ParameterRanges": "hyperparameter",
    "HyperParameterRanges": "hyperparameter",
    "ContainerArguments": "argument",
    "ContainerEntrypoint": "argument",
    "Environment": "environment",
    "InstanceType": "instance",
    "InstanceCount": "instance",
    "VolumeSizeInGB": "instance",
    "ResourceConfig": "instance",
    "HyperParameterTuningResourceConfig": "instance",
    "ClusterConfig": "instance",
    "TransformResources": "instance",
    "ProcessingResources": "instance",
    "EnableManagedSpotTraining": "instance",
    "TrainingImage": "image",
    "ImageUri": "image",
    "Image": "image",
    "InputDataConfig": "data",
    "OutputDataConfig": "data",
    "ProcessingInputs": "data",
    "ProcessingOutputConfig": "data",
    "TransformInput": "data",
    "TransformOutput": "data",
    "CheckpointConfig": "data",
    "ModelDataUrl": "data",
    "ModelDataSource": "data",
    "S3Uri": "data",
}
# Names under which code travels: our channel and its hash, and the script mode of SageMaker's own toolkits.
_CODE = frozenset(("code", "--code", "sagemaker_submit_directory", "sagemaker_program", "SAGEMAKER_SUBMIT_DIRECTORY"))
_HOLDS_CODE = frozenset(
    {
        "ContainerArguments",
        "Environment",
        "HyperParameters",
        "InputDataConfig",
        "ProcessingInputs",
        "StaticHyperParameters",
    }
)


def _in_a_step(names: list[str]) -> Kind:
    for name, following in zip(names, [*names[1:], ""], strict=True):
        if name == "ForEachBody" and following:
            inner = names[names.index(following) + 1 :]
            return _in_a_step(inner) if inner else "step"
        if name in _HOLDS_CODE and following in _CODE:
            return "code"
        if (kind := _OF_FIELD.get(name)) is not None:
            return kind
    return "other"


def _reordered(old: list[Json], new: list[Json]) -> bool:
    return Counter(map(_canonical, old)) == Counter(map(_canonical, new))


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
