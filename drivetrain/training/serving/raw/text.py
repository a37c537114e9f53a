"""A text in place of its tokens, which are its bytes: what follows each of them is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError

NAMES = ("text",)
TYPES = {"text/plain": "text"}
"""Content types whose body is one row."""


def columns(values: Mapping[str, Any], options: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        values: `text`, one a row, all of as many bytes.

    Raises:
        InputError: a value that is no text, or none of a byte.
    """
    rows: list[list[int]] = []
    for row, text in enumerate(values["text"], start=1):
        if not isinstance(text, str) or not text:
            raise InputError(f"row {row}: text is {text!r:.60}; allowed is a text of at least one byte.")
        # The last token is only ever a target.
        rows.append([*text.encode(), 0])
    return {"tokens": rows}
