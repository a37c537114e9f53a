"""Random numbers that are a pure function of a seed and the number of the draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Seeds = NDArray[np.uint64]

STEP = 0x9E3779B97F4A7C15


def uniform(seeds: Seeds, draw: int) -> NDArray[np.float64]:
    """Random numbers in [0, 1), one for each seed: the draw `draw`, which has nothing to do with the others.

    The generator is SplitMix64, which can be asked for any draw by itself.
    """
    # Seeds are mixed first: neighbouring ones would otherwise share their draws, each one step later.
    bits = mix(mix(seeds.copy()) + np.uint64((draw + 1) * STEP % 2**64))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mix(values: Seeds) -> Seeds:
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
