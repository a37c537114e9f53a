"""The service's requests and answers, offline: its shapes, patterns and properties.

All of it is in shapes.json, which is read once (see extract_shapes.py for how it is made).

`Steps.<name>.<path>` leads to the answer of the describe call of the step's job.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import parse_path


@cache
def service() -> dict[str, Any]:
    """`botocore` (version), `requests` and `responses` (step type -> shapes), `shapes` (name -> shape). Do not change.

    Nothing is read before the first call, which takes two milliseconds.
    """
    return json.loads(Path(__file__).with_name("shapes.json").read_bytes())


# What every step has besides the answer of its describe call.
STEP_ATTRIBUTES = frozenset(("Outcome", "OutputParameters", "PropertyFiles"))
TYPES = {
    "string": "String",
    "integer": "Integer",
    "long": "Integer",
    "float": "Float",
    "double": "Float",
    "boolean": "Boolean",
    "structure": "Object",
    "map": "Object",
    "list": "List",
}


class UnknownPropertyError(ValueError):
    """A path that leads to nothing: `given` says which part of it, `allowed` what there is instead."""

    def __init__(self, given: str, allowed: str) -> None:
        super().__init__(f"{given}. {allowed}")
        self.given = given
        self.allowed = allowed


def property_type(step_type: str, path: str) -> str | None:
    """The type of a property: String, Integer, Float, Boolean, Object, List; None where only the run will tell.

    Args:
        step_type: `Training`, `Processing`, ... as in the definition.
        path: what follows `Steps.<name>.`, such as `ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri`.

    Raises:
        UnknownPropertyError: a step of this type has no such property.
    """
    answers: list[str] | None = service()["responses"].get(step_type)
    try:
        parts = list(map(str, parse_path(path)))
    except UserError:
        raise UnknownPropertyError(
            f"{path!r} is not a path", "Write it like Outputs['train'].S3Output.S3Uri."
        ) from None
    if answers is None or parts[0] in STEP_ATTRIBUTES:
        return None
    shapes = service()["shapes"]
    members = {name: shape for answer in answers for name, shape in shapes[answer]["members"].items()}
    shape: dict[str, Any] = {"type": "structure", "members": members}
    for part in parts:
        kind = shape["type"]
        if kind == "structure":
            if part not in shape["members"]:
                raise UnknownPropertyError(f"there is no property {part!r}", did_you_mean(part, shape["members"]))
            shape = shapes[shape["members"][part]]
        elif kind == "list":  # by number, or by the name that an entry carries: Outputs['train']
            shape = shapes[shape["member"]]
        elif kind == "map":
            shape = shapes[shape["value"]]
        else:
            raise UnknownPropertyError(f"there is no property {part!r}", "What stands before it has none.")
    return TYPES.get(shape["type"])
