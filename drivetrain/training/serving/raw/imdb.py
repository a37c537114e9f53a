"""The text of a review in place of its tokens; the vocabulary is that of the training data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.data.tokens import numbers_of, tokens_of

NAMES = ("text",)
TYPES = {"text/plain": "text"}
"""Content types whose body is one row."""


def columns(values: Mapping[str, Any], options: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        values: `text`, one a row.
        options: the reader's.
        fitted: its vocabulary.

    Raises:
        InputError: a value that is no text, or a model that came without its vocabulary.
    """
    if "vocabulary" not in fitted:
        raise InputError("the model came without its vocabulary; give tokens in place of text.")
    numbers = numbers_of(fitted["vocabulary"])
    for row, text in enumerate(values["text"], start=1):
        if not isinstance(text, str):
            raise InputError(f"row {row}: text is {text!r:.60}, which is no text.")
    rows = [tokens_of(text, numbers, options["length"]) for text in values["text"]]
    return {"tokens": np.stack([tokens for tokens, _ in rows]), "length": np.array([length for _, length in rows])}
