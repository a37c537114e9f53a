"""Texts that pipeline parameters make, held against what the service takes where they are used.

A parameter may have 1,024 characters, an argument or a variable of a processing job 256. The service compares only when
the step begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.json_text import list_in, object_in
from drivetrain.targets.sagemaker.document.expressions import parse_get, references, text_of_value
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.targets.sagemaker.document.service.shapes import is_reference

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline


def too_long(step_type: str, arguments: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    """Texts that the service refuses for their length, each with the parameters that make it and what to do.

    Args:
        step_type: `Processing`, `Training`, ... as in the definition.
        values: parameter -> value. What is not known yet counts as empty, and so does a parameter that is not here.
    """
    root = service()["requests"].get(step_type)
    for path, expression, most in () if root is None else _texts(arguments, root, "Arguments"):
        names = dict.fromkeys(get.parameter for get in references(expression) if get.parameter in values)
        if names and (length := _length(expression, values)) > most:
            yield (
                f"{path} gets {length:,} characters by {', '.join(map(repr, names))}; at most {most:,} can be passed. "
                "Shorten it, or put the text in a file and give its place as an input of the step."
            )


def longest_values(pipeline: Pipeline) -> dict[str, Any]:
    """Parameter -> the longest of its default, its choices and what triggers give it."""
    known = [(each.name, value) for each in pipeline.parameters for value in (each.default, *each.choices)]
    for trigger in pipeline.triggers:
        # What begins with `$.` is taken from the event.
        known += [(name, value) for name, value in trigger.parameters.items() if not str(value).startswith("$.")]
    longest: dict[str, Any] = {}
    for name, value in known:
        if value is not None and len(text_of_value(value)) > len(text_of_value(longest.get(name, ""))):
            longest[name] = value
    return longest


def _texts(value: Any, name: str, path: str) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Place, expression and most characters of each text that is only known at the start."""
    shape = service()["shapes"][name]
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        if is_reference(given):
            if shape["type"] == "string" and "max" in shape:
                yield path, given, shape["max"]
        elif shape["type"] == "structure":
            for member, item in given.items():
                if member in shape["members"]:
                    yield from _texts(item, shape["members"][member], f"{path}.{member}")
        elif shape["type"] == "map":
            for key, item in given.items():
                yield from _texts(item, shape["value"], f"{path}.{key}")
    elif isinstance(value, list) and shape["type"] == "list":
        for n, item in enumerate(cast("list[Any]", value)):
            yield from _texts(item, shape["member"], f"{path}[{n}]")


def _length(value: Any, values: Mapping[str, Any]) -> int:
    """How many characters a value has at least."""
    if not isinstance(value, dict):
        return len(text_of_value(value))
    given = cast("dict[str, Any]", value)
    if "Std:Join" in given:
        join = object_in(given, "Std:Join")
        parts = list_in(join, "Values")
        return sum(_length(part, values) for part in parts) + len(str(join.get("On", ""))) * max(len(parts) - 1, 0)
    name = parse_get(given["Get"]).parameter if "Get" in given else None
    return len(text_of_value(values.get(name, ""))) if name is not None else 0
