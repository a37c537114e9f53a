"""JSON as events and event patterns have it: which scalars there are, and how a number was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from drivetrain.pipelines.errors import UserError

Scalar = str | int | float | bool | None
Json = Mapping[str, "Json"] | list["Json"] | Scalar

MAX_BYTES = 1_048_576
"""Of one event, as PutEvents takes it."""


class WrittenFloat(float):
    """A float that keeps its text: EventBridge compares a plain number of a pattern as it is written."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made


def loads(text: str | bytes, what: str, most: int = MAX_BYTES) -> Any:
    """JSON text as Python values that still know how their numbers were written.

    Raises:
        UserError: naming `what`, for text that is no JSON, is nested too deeply, has NaN or has more than `most`
            bytes: as many as one event can have, unless given.
    """
    if len(text) > most:
        raise UserError(f"{what} has {len(text):,} bytes; at most {most:,} are read.")
    try:
        return json.loads(text, parse_float=WrittenFloat, parse_constant=_no_constant)
    except RecursionError:
        raise UserError(f"{what} is nested too deeply to be read.") from None
    except ValueError as error:
        raise UserError(f"{what} is no JSON: {error}.") from None


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def written(value: Scalar) -> str:
    """The JSON text of a scalar, a number as it was written where that is known."""
    if isinstance(value, WrittenFloat):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def is_number(value: object) -> bool:
    """Whether a value is a JSON number (Python counts True among its integers)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
