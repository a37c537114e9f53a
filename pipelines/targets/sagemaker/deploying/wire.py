"""A definition as it is sent, kept and compared: compact text, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from drivetrain.pipelines.definition.json_text import SpelledFloat


def wire_text(definition: Mapping[str, Any]) -> str:
    """The text that goes to the service: the same bytes for the same definition, ASCII, no spaces."""
    if _has_spelled(definition):
        return "".join(_written(definition))
    return json.dumps(definition, separators=(",", ":"), allow_nan=False)


def digest_of(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _has_spelled(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, SpelledFloat):
            return True
        if isinstance(item, Mapping):
            pending.extend(cast("Mapping[str, Any]", item).values())
        elif isinstance(item, list | tuple):
            pending.extend(cast("list[Any]", item))
    return False


def _written(value: Any) -> Iterator[str]:
    """As json.dumps, but a float as it was written: `1E5` stays, where somebody's definition had it."""
    if isinstance(value, SpelledFloat):
        yield value.text
    elif isinstance(value, Mapping):
        mark = "{"
        for key, item in cast("Mapping[str, Any]", value).items():
            yield f"{mark}{json.dumps(key)}:"
            yield from _written(item)
            mark = ","
        yield "{}" if mark == "{" else "}"
    elif isinstance(value, list | tuple):
        mark = "["
        for item in cast("list[Any]", value):
            yield mark
            yield from _written(item)
            mark = ","
        yield "[]" if mark == "[" else "]"
    else:
        yield json.dumps(value, allow_nan=False)
