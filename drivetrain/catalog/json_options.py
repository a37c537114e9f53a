"""Options given as the text of a JSON object, as the parameters of the train component hold them."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from drivetrain.base.errors import UserError

# (drivetrain.training.options has the same rules, with torch.)
LARGEST_INT = 2**63 - 1


def parse_options(text: str, what: str) -> dict[str, Any]:
    """A JSON object from the text of a setting; an empty text is an empty object.

    Raises:
        UserError: the text is no JSON object.
    """
    try:
        given: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UserError(f'{what} {text!r:.80} are not JSON ({error}). Example: {{"name": 32}}') from None
    if not isinstance(given, dict):
        raise UserError(f'{what} {text!r:.80} are not a JSON object. Example: {{"name": 32}}')
    return given  # pyright: ignore[reportUnknownVariableType]


def wrong_type(value: Any, annotation: str) -> str | None:
    """The type that an option should have and has not; only plain annotations are held against their values."""
    match annotation:
        case "int":
            return None if _is_int(value) else "int"
        case "float":
            return None if _is_int(value) or (isinstance(value, float) and math.isfinite(value)) else "float (finite)"
        case "str":
            return None if isinstance(value, str) else "str"
        case "bool":
            return None if isinstance(value, bool) else "bool"
        case "tuple[str, ...]":
            return None if _is_texts(value) else "list of str"
        case _:
            return None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast(list[Any], value))
