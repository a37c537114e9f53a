"""A text in place of its tokens, by the tokenizer that travels in the model folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.pretrained_tokenizer import encode, load_tokenizer, padded, padding_of

NAMES = ("text",)
TYPES = {"text/plain": "text"}
"""Content types whose body is one row."""


def columns(values: Mapping[str, Any], options: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        values: `text`, one a row (of token classification: lists of words), and under the columns' names of the
            training data the second texts, or the prompts, where there were some.
        options: the reader's; `tokenizer` is the model folder.

    Raises:
        InputError: a value that is no text.
    """
    texts = list(values["text"])
    for row, text in enumerate(texts, start=1):
        is_text = isinstance(text, str)
        fits = isinstance(text, list | tuple) and all(isinstance(w, str) for w in text) if options["words"] else is_text
        if not fits:
            raise InputError(
                f"row {row}: text is {text!r:.60}; allowed is {'a list of words' if options['words'] else 'a text'}."
            )
    seconds, prompts = (_others(values, options[name], len(texts)) for name in ("second", "prompt"))
    tokenizer = _tokenizer(str(options["tokenizer"]))
    length = int(options["length"])
    # What follows the last token is what a language model is asked: nothing ends the text.
    rows = encode(tokenizer, texts, length=length, seconds=seconds, prompts=prompts, words=bool(options["words"]))
    made = {
        "tokens": padded([row.tokens for row in rows], length, padding_of(tokenizer)),
        "length": np.array([len(row.tokens) for row in rows]),
        "types": padded([row.types for row in rows], length, 0),
        "start": np.array([row.start for row in rows]),
    }
    return made | {"positions": np.tile(np.arange(length), (len(rows), 1))}


@cache
def _tokenizer(folder: str) -> Any:
    return load_tokenizer(Path(folder))


def _others(values: Mapping[str, Any], name: str, count: int) -> list[str] | None:
    """Second texts or prompts; None where the model has none."""
    if not name:
        return None
    if name not in values:
        return [""] * count
    for row, text in enumerate(values[name], start=1):
        if not isinstance(text, str):
            raise InputError(f"row {row}: {name} is {text!r:.60}; allowed is a text.")
    return list(values[name])
