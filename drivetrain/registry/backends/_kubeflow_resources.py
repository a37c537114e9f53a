"""Models, versions and artifacts as Kubeflow Model Registry describes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.registry.backends._kubeflow_rest import Json

NUMBER = re.compile(r"[1-9][0-9]{0,8}")
"""The name of a version of ours: no 007, no digits but ASCII's."""


def has_number(version: Json) -> bool:
    """True for a version that is named by a number. Others are left alone."""
    return NUMBER.fullmatch(str(version.get("name"))) is not None


def is_ours(version: Json) -> bool:
    """True for a version with a number that is not archived."""
    return has_number(version) and version.get("state") != "ARCHIVED"


def texts(tags: Mapping[str, str]) -> Json:
    """Properties that are texts."""
    return {name: {"metadataType": "MetadataStringValue", "string_value": text} for name, text in tags.items()}


def properties(resource: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The properties of a resource: its own name for a value, and its type."""
    return cast("Mapping[str, Mapping[str, Any]]", resource.get("customProperties") or {})


def with_texts(resource: Json, tags: Mapping[str, str]) -> Json:
    """All properties of a resource, since a change replaces them, with these texts. The registry answers a struct as
    JSON and takes it as base64."""
    found: Json = {}
    for name, value in properties(resource).items():
        struct = str(value.get("struct_value", ""))
        is_json = struct.startswith("{")
        found[name] = {**value, "struct_value": base64.b64encode(struct.encode()).decode()} if is_json else value
    return {**found, **texts(tags)}


def tags_in(resource: Mapping[str, Any]) -> dict[str, str]:
    """The properties that are texts."""
    return {name: str(value["string_value"]) for name, value in properties(resource).items() if "string_value" in value}


def count(resource: Json, name: str) -> int:
    """A property that counts; 0 if it is missing."""
    text = str(properties(resource).get(name, {}).get("int_value"))
    return int(text) if NUMBER.fullmatch(text) else 0


def seconds(resource: Mapping[str, Any]) -> float:
    """When a resource was made, in seconds since 1970."""
    return int(resource.get("createTimeSinceEpoch") or 0) / 1000
