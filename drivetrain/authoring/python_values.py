"""Settings given as Python values: their JSON form, and a text of it that YAML reads back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from drivetrain.base.errors import UserError, shown
from drivetrain.base.masking import MASK, looks_secret

CALL = "the call"
"""The origin of such a value, in messages."""


def as_given(path: tuple[str, ...], value: Any, *, text: bool) -> Any:
    """Convert a value for the field at `path`: mostly itself. A field of text takes a path, and a dict or a list as its
    JSON, as from a file; numbers of NumPy are Python's.

    Raises:
        UserError: bytes for a field of text, or a dict or list that is no JSON.
    """
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if not text:
        return value
    if isinstance(value, bytes | bytearray):  # pydantic would decode them
        raise UserError(f"{_said(path, value)}: give a text, such as VALUE.decode().")
    if isinstance(value, PurePath):
        return str(value)
    return yaml_of(json_of(path, cast("object", value))) if isinstance(value, dict | list) else value


def _said(path: tuple[str, ...], value: object) -> str:
    given = MASK if any(map(looks_secret, path)) else shown(value)
    return f"Setting {'.'.join(path)} (from {CALL}) is {given}"


def json_of(path: tuple[str, ...], value: object) -> Any:
    """The JSON value of a Python value.

    Raises:
        UserError: it has none.
    """
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError):
        raise UserError(
            f"{_said(path, value)}: it has no JSON form, in which a run keeps it to go on. "
            "Give text, numbers, lists, dicts, an Enum, a dataclass or a pydantic model of them."
        ) from None


def fields_given(value: Any) -> dict[str, Any]:
    """A copy of what a mapping or an object says, to put another value into."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in value.model_fields_set}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def yaml_of(value: Any) -> str:
    """A JSON value as a YAML text of one line that is read back exactly; JSON too, where it has no NaN or infinity."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return "{" + ", ".join(f"{_quoted(key)}: {yaml_of(each)}" for key, each in given.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_of, cast("list[Any]", value))) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        text = {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(repr(value), repr(value))
        return text if "." in text else text.replace("e", ".0e")  # without the point it is a text to YAML
    return json.dumps(value)


def _quoted(text: str) -> str:
    """A JSON string, but for characters beyond 16 bits: JSON's pairs of escapes are no characters to YAML."""
    return '"' + "".join(c if ord(c) > 0xFFFF else json.dumps(c)[1:-1] for c in text) + '"'
