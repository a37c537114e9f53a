"""Hashes of whole numbers and texts: the same on every machine and in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.input_pipeline.draws import STEP, mix

Hashes = NDArray[np.uint64]

# Rows that are mixed at once: as many as a core's second cache holds, some arrays of them.
BLOCK = 1 << 14


def hash_column(values: NDArray[Any]) -> Hashes:
    """A hash of each value of a column of whole numbers or texts, shape [n].

    Raises:
        TypeError: a column of something else.
    """
    if values.ndim == 1 and values.dtype.kind in "iu":
        return mix(values.astype(np.uint64) + np.uint64(STEP))
    if values.ndim == 1 and values.dtype.kind in "OU":
        texts = values.tolist()
        if all(isinstance(text, str) for text in texts):
            return _hash_texts(texts)
    raise TypeError(f"values of type {values.dtype}, shape {list(values.shape)}")


def _hash_texts(texts: list[str]) -> Hashes:
    """The sum over the 8-byte words of a text, each mixed with its place, so that it does not matter how long the
    longest of the others is."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.fromiter(map(len, encoded), np.uint64, len(encoded))
    width = (int(lengths.max(initial=0)) + 8) // 8 * 8
    words = np.array(encoded, dtype=f"S{width}").view("<u8").reshape(len(encoded), width // 8).astype(np.uint64)
    total = mix(lengths)
    for place in range(words.shape[1]):
        word = words[:, place]
        there = word != 0
        mixed = mix(word + np.uint64((place + 1) * STEP % 2**64))
        mixed *= there
        total += mixed
    return mix(total)
