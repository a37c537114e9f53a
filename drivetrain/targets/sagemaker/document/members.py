"""Members of JSON objects by their expected shape; what is null counts as left out, as the service's SDK writes it.

Every function that takes the place of the value, which begins the message, raises UserError for another shape; `.._in`
take what has another shape for left out: where a definition was checked before, or its form is nobody's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json


def optional_number(given: dict[str, Json], key: str, place: str) -> float | None:
    """A number that is not negative, or None."""
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UserError(f"{place}.{key} is {shown(value)}. Allowed: a number that is not negative.")
    return value


def object_of(given: Json, place: str) -> dict[str, Json]:
    """An object; an empty one for null."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise UserError(f"{place} is {shown(given)}. Allowed: an object.")
    return given


def list_of(given: Json, place: str) -> list[Json]:
    """A list; an empty one for null."""
    if given is None:
        return []
    if not isinstance(given, list):
        raise UserError(f"{place} is {shown(given)}. Allowed: a list.")
    return given


def text_of(given: Json, place: str) -> str:
    """Text that is not empty."""
    if not isinstance(given, str) or not given:
        raise UserError(f"{place} is {shown(given)}. Allowed: text.")
    return given


def member(given: dict[str, Json], key: str, place: str) -> str:
    """A member that must be there and be text."""
    if key not in given:
        given_keys = ", ".join(given) or "nothing"
        raise UserError(f"{place} has no {key}. Given: {given_keys:.120}.")
    return text_of(given[key], f"{place}: {key}")


def optional_text(given: dict[str, Json], key: str, place: str) -> str | None:
    """A text, or None."""
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: {key} is {shown(value)}. Allowed: text.")
    return value


def object_in(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    value = given.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_in(given: Mapping[str, Any], key: str) -> list[Any]:
    """The list under a key; an empty one where there is none."""
    value = given.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects_in(given: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in the list under a key."""
    return [cast("dict[str, Any]", item) for item in list_in(given, key) if isinstance(item, dict)]


def shown(value: Json) -> str:
    """A value in a message: its kind where it is large, itself where it is small."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) or abs(value) < 1e15 else "a huge number"
    return text if len(text) <= 60 else text[:60] + "..."
