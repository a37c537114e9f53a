"""Bins of the whole real line, for margins: log-odds of logits, or raw scores that a recipe gives.

With t = 1 + |margin| and a resolution of r, a power of two of t has

    from 1 to 4          2**(r - 2) bins: up to |margin| = 1 they are 2**(2 - r) wide
    from 4 to 8          2**(r - 4) bins
    from 8 to 64         2**(r - 5) bins
    from 64 to 256       2**(r - 6) bins
    from 256 to 2**128   2**(r - 12) bins; a power that is negative joins several powers of two
    above                one bin

and 0 is a bin of its own. Bins of negative margins mirror those of positive ones. They are as many as those of
probabilities (score_histogram.py), and the bounds of normal log-odds are at most 1.1 times as wide as by those, for
every spread. A bin is a float's exponent and first bits: nothing is rounded but t, so that the order is kept exactly.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Floats, Ints

# (from, to, how many fewer bits than the resolution a power of two of t is cut by)
_PIECES = ((1.0, 4.0, 2), (4.0, 8.0, 4), (8.0, 64.0, 5), (64.0, 256.0, 6), (256.0, 2.0**128, 12))
_MANTISSA = 52
# Margins that are looked at together: what is made of them on the way stays in the processor's cache.
_BLOCK = 1 << 14


@lru_cache(maxsize=32)
def _first_bits(resolution: int) -> tuple[tuple[float, float, int, int, int], ...]:
    """Each piece: from, to, by how many bits a float is shifted, and what is left of both ends."""
    found: list[tuple[float, float, int, int, int]] = []
    for low, high, fewer in _PIECES:
        shift = _MANTISSA - resolution + fewer
        first, last = (int(np.float64(end).view(np.int64)) >> shift for end in (low, high))
        found.append((low, high, shift, first, last))
    return tuple(found)


def _bins_of_one_side(resolution: int) -> int:
    return 1 + sum(last - first for *_, first, last in _first_bits(resolution))


def number_of_bins(resolution: int) -> int:
    return 2 * _bins_of_one_side(resolution) + 1


def bins_of(margins: NDArray[np.floating], resolution: int) -> Ints:
    """The bin of each margin, in the order of the margins.

    Args:
        margins: finite floats of any shape.
    """
    flat = np.asarray(margins, np.float64).reshape(-1)
    found = np.empty(flat.shape, np.int64)
    pieces, middle = _first_bits(resolution), _bins_of_one_side(resolution)
    nearest = 1 - sum(first for *_, first, _ in pieces)
    for start in range(0, len(flat), _BLOCK):
        given, bins = flat[start : start + _BLOCK], found[start : start + _BLOCK]
        t = np.abs(given)
        t += 1
        bins[:] = nearest
        for low, high, shift, *_ in pieces:
            bits = np.clip(t, low, high).view(np.int64)
            bits >>= shift
            bins += bits
        bins *= np.sign(given).astype(np.int64)
        bins += middle
    return found.reshape(margins.shape)


@lru_cache(maxsize=8)
def lower_edges(resolution: int) -> Floats:
    """The least margin of each bin, up to the rounding of t, shape [bins]."""
    bits = [np.arange(first + 1, last + 1) << shift for _, _, shift, first, last in _first_bits(resolution)]
    up = np.append(1.0, np.concatenate(bits).view(np.float64)) - 1
    ends = np.append(up[1:], np.finfo(np.float64).max)  # a mirrored bin begins where its image ends
    return np.concatenate([-ends[::-1], [0.0], up])


@lru_cache(maxsize=8)
def bins_of_ties(resolution: int) -> NDArray[np.bool_]:
    """Mask of the bins that hold one margin at most, so that all their samples tie: that of 0; shape [bins]."""
    return np.arange(number_of_bins(resolution)) == _bins_of_one_side(resolution)
