"""JSON as events and event patterns have it: which scalars there are, and how a number was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import SpelledFloat, parse

Scalar = str | int | float | bool | None
Json = Mapping[str, "Json"] | list["Json"] | Scalar

MAX_BYTES = 1_048_576
"""The largest event, as PutEvents takes it."""


def loads(text: str | bytes, what: str, most: int = MAX_BYTES) -> Any:
    """JSON text as Python values that still know how their numbers were written: EventBridge compares those of a
    pattern by their text.

    Raises:
        UserError: naming `what`, for text that is no JSON (`json_text.parse` says what is none), or has more than
            `most` bytes: as many as one event can have, unless given.
    """
    if len(text) > most:
        raise UserError(f"{what} has {len(text):,} bytes; at most {most:,} are read.")
    return parse(text, what)


def written(value: Scalar) -> str:
    """The JSON text of a scalar, a number as it was written where that is known."""
    if isinstance(value, SpelledFloat):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def is_number(value: object) -> bool:
    """Return True if a value is a JSON number (Python counts True among its integers)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
