"""Random numbers that are a pure function of a seed and of which draw it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Seeds = NDArray[np.uint64]

_STEP = 0x9E3779B97F4A7C15


def uniform(seeds: Seeds, draw: int) -> NDArray[np.float64]:
    """Random numbers in [0, 1), one for each seed: the draw `draw`, which has nothing to do with the others.

    The generator is SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast Splittable Pseudorandom Number Generators",
    OOPSLA 2014), which can be asked for any draw by itself.
    """
    # Seeds are mixed first: neighbouring ones would otherwise share their draws, each one step later.
    bits = _mixed(_mixed(seeds) + np.uint64((draw + 1) * _STEP % 2**64))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(bits: Seeds) -> Seeds:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
