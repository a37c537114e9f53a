"""The state of the generators of random numbers that every rank has: Python's and NumPy's.

As arrays of fixed size in the rank's own file: what is saved with the weights is of the same step as they are. A
framework adds its own.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


def generator_states() -> dict[str, Int64s]:
    """By name: `python` and `numpy`."""
    version, internal, gauss = random.getstate()
    kind, words, position, has_gauss, cached = np.random.get_state(legacy=True)
    assert kind == "MT19937"
    return {
        "python": np.array([version, gauss is not None, _bits(gauss or 0.0), *internal], dtype=np.int64),
        "numpy": np.array([position, has_gauss, _bits(float(cached)), *map(int, words)], dtype=np.int64),
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Set them to what `generator_states` gave.

    Raises:
        ValueError, TypeError, OverflowError, IndexError: a state that cannot be set.
    """
    version, has_gauss, gauss, *internal = states["python"].tolist()
    random.setstate((version, tuple(internal), _number(gauss) if has_gauss else None))
    position, has_cached, cached, *words = states["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(words, dtype=np.uint32), position, has_cached, _number(cached)))


def _bits(number: float) -> int:
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _number(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]
