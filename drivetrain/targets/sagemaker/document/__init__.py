"""The definition: read, compared, evaluated. Here are paths into JSON, as `Get` and `Std:JsonGet` write them (`a.b`,
`Outputs['train'].S3Output`, `Summaries[0].Name`), and members of JSON objects by their expected shape; what is null
counts as left out, as the service's SDK writes it.

Every function that takes the place of the value, which begins the message, raises UserError for another shape; `.._in`
take what has another shape for left out: where a definition was checked before, or its form is nobody's business.
"""

from __future__ import annotations

import re

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json, Segment

# Where a describe call gives a list, the service lets a path select an entry by its name.
_NAMES_OF_ENTRIES = ("OutputName", "InputName", "MetricName", "ChannelName", "Name", "Key")


def path_text(path: tuple[Segment, ...]) -> str:
    """A path as people write it."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif re.fullmatch(r"[\w-]+", segment):
            text += f".{segment}" if text else segment
        else:
            text += f"['{segment}']"
    return text


def descend(value: Json, path: tuple[Segment, ...]) -> Json:
    """Return the value at `path`.

    Raises:
        LookupError: whose text says how far the path leads and what is there.
    """
    for depth, segment in enumerate(path):
        if isinstance(value, dict):
            if segment in value:
                value = value[segment]  # type: ignore[reportArgumentType]  # an int is in no JSON object
                continue
            available = list(value)
        elif isinstance(value, list):
            if isinstance(segment, int) and segment < len(value):
                value = value[segment]
                continue
            entries = {name: entry for entry in value if (name := name_of_entry(entry)) is not None}
            if isinstance(segment, str) and segment in entries:
                value = entries[segment]
                continue
            available = list(entries) if isinstance(segment, str) else []
            if not available:
                raise LookupError(f"{_there(path[:depth])} is a list of {len(value)}, without {segment!r}.")
        else:
            raise LookupError(f"{_there(path[:depth])} is a single value, without {segment!r}.")
        hint = did_you_mean(str(segment), available) if available else "It is empty."
        raise LookupError(f"{_there(path[:depth])} has no {segment!r}. {hint}")
    return value


def name_of_entry(entry: Json) -> str | None:
    """The name by which a path may select an entry of a list."""
    if isinstance(entry, dict):
        for field in _NAMES_OF_ENTRIES:
            if isinstance(name := entry.get(field), str):
                return name
    return None


def _there(path: tuple[Segment, ...]) -> str:
    return path_text(path) or "it"


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
