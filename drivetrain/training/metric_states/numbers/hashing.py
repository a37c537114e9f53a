"""Hashes of whole numbers and texts: the same on every machine and in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

STEP = np.uint64(0x9E3779B97F4A7C15)
# Rows that are mixed at once: as many as a core's second cache holds, some arrays of them.
BLOCK = 1 << 14


def mix(values: Hashes) -> Hashes:
    """Mix, in place, the bits of each number: the finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast
    Splittable Pseudorandom Number Generators", OOPSLA 2014), one to one."""
    shifted = values >> np.uint64(30)
    values ^= shifted
    values *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(values, np.uint64(27), out=shifted)
    values ^= shifted
    values *= np.uint64(0x94D049BB133111EB)
    np.right_shift(values, np.uint64(31), out=shifted)
    values ^= shifted
    return values


def hash_column(values: NDArray[Any]) -> Hashes:
    """A hash of each value of a column of whole numbers or texts, shape [n].

    Raises:
        TypeError: a column of something else.
    """
    if values.ndim == 1 and values.dtype.kind in "iu":
        return mix(values.astype(np.uint64) + STEP)
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
        mixed = mix(word + np.uint64((place + 1) * int(STEP) % 2**64))
        mixed *= there
        total += mixed
    return mix(total)
