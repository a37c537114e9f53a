"""Words of a text and their numbers: as readers give them to a model, and as a request's become them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.data.arrow import numpy

PADDING, UNKNOWN = 0, 1
FIRST_WORD = 2
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def words_of(text: str) -> list[str]:
    """The words of a text: runs of letters and digits in lower case, `don't` in one piece, no punctuation."""
    return _WORD.findall(unicodedata.normalize("NFC", text.replace("<br />", " ")).lower().replace("’", "'"))


def numbers_of(vocabulary: Sequence[str]) -> dict[str, int]:
    """The token of each word of a vocabulary."""
    return {word: FIRST_WORD + number for number, word in enumerate(vocabulary)}


def tokens_of(text: str, numbers: Mapping[str, int], length: int) -> tuple[Any, int]:
    """A text as int64 tokens of shape [length], filled up with PADDING, and the number of real tokens (at least 1)."""
    found = [numbers.get(word, UNKNOWN) for word in words_of(text)[:length]] or [UNKNOWN]
    tokens = numpy().full(length, PADDING, dtype="int64")
    tokens[: len(found)] = found
    return tokens, len(found)
