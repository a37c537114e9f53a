"""Options given as the text of a JSON object, as the parameters of the train component hold them."""

from __future__ import annotations

import json
from typing import Any

from drivetrain.base.errors import UserError


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
