"""Options given as the text of a JSON object, as the parameters of the train component hold them."""

from __future__ import annotations

import json
from typing import Any

from drivetrain.pipelines.errors import UserError

_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


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
    kinds = _TYPES.get(annotation)
    if kinds is None or (isinstance(value, kinds) and (annotation == "bool" or not isinstance(value, bool))):
        return None
    return annotation
