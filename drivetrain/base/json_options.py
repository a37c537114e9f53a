"""Options as JSON holds them: the text of an object, and the types of its values."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from drivetrain.base.errors import InputError

LARGEST_INT = 2**63 - 1  # torch keeps sizes in 64 bits


def parse_options(text: str, what: str) -> dict[str, Any]:
    """A JSON object from the text of a setting; an empty text is an empty object.

    Raises:
        InputError: the text is no JSON object.
    """
    try:
        given: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f'{what} {text!r:.80} are not JSON ({error}). Example: {{"name": 32}}') from None
    if not isinstance(given, dict):
        raise InputError(f'{what} {text!r:.80} are not a JSON object. Example: {{"name": 32}}')
    return given  # pyright: ignore[reportUnknownVariableType]


def wrong_type(value: Any, annotation: str) -> str | None:
    """The values that an option may have, in words, for one of another type; only plain annotations are held against
    them."""
    match annotation:
        case "int":
            return None if _is_int(value) else "a whole number (of 64 bits)"
        case "float":
            finite = isinstance(value, float) and math.isfinite(value)
            return None if finite or _is_int(value) else "a number (finite)"
        case "str":
            return None if isinstance(value, str) else "a text"
        case "bool":
            return None if isinstance(value, bool) else "true or false"
        case "tuple[str, ...]":
            return None if _is_texts(value) else 'a list of texts, such as ["4", "8"]'
        case _:
            return None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in cast("list[Any]", value))
