"""The Poisson bootstrap: in each replicate a sample counts 0, 1, 2, ... times, as often as its key's hash says.

Weights of independent Poisson(1) draws stand for drawing as many samples as there are with replacement, without having
to know how many there are (N. Chamandy and others, "Estimating Uncertainty for Massive Data Streams", Google, 2012). A
weight depends on the seed, the replicate and the sample's key alone: on any number of ranks, and for any model, a
replicate has the same samples.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.draws import STEP, mix
from drivetrain.training.metric import Counts, Floats, Ints
from drivetrain.training.metric_states.numbers.hashing import Hashes, hash_column

Weights = NDArray[np.uint8]

_BITS = 32
# 10**60 / k!, and e times that: thresholds are whole numbers, the same on every machine.
_TERMS = [10**60 // factorial(k) for k in range(60)]
# Of uniform numbers of 32 bits: below the k-th threshold the weight is at most k.
THRESHOLDS = tuple(
    limit for most in range(20) if (limit := 2**_BITS * sum(_TERMS[: most + 1]) // sum(_TERMS)) < 2**_BITS - 1
)
LARGEST_WEIGHT = len(THRESHOLDS)
# Weights from here on are so rare that they are looked for only where the number is this large.
_COMMON = 5


def weights(keys: Hashes, replicates: int, seed: int) -> Weights:
    """How often each sample counts in each replicate, shape [replicates, n].

    Args:
        keys: a hash of each sample's key, shape [n].
        seed: below 2**64.
    """
    mixed_seed = mix(np.array([seed], dtype=np.uint64) + np.uint64(STEP))
    starts = mix(keys ^ mixed_seed)
    found = np.zeros((replicates, len(keys)), dtype=np.uint8)
    for pair in range(0, replicates, 2):
        # SplitMix64 with the key as its seed; one number has the bits of two replicates.
        bits = mix(starts + np.uint64((pair // 2 + 1) * STEP % 2**64))
        _poisson(bits.astype(np.uint32), found[pair])
        if pair + 1 < replicates:
            bits >>= np.uint64(_BITS)
            _poisson(bits.astype(np.uint32), found[pair + 1])
    return found


def _poisson(uniform: NDArray[np.uint32], into: Weights) -> None:
    for limit in THRESHOLDS[:_COMMON]:
        into += uniform >= limit
    rare = np.flatnonzero(uniform >= THRESHOLDS[_COMMON])
    into[rare] += np.searchsorted(THRESHOLDS[_COMMON:], uniform[rare], side="right").astype(np.uint8)


def keys_of(name: str, values: NDArray[Any]) -> Hashes:
    """Hashes of the values of a key column, shape [n].

    Raises:
        InputError: a column of something other than whole numbers or texts.
    """
    try:
        return hash_column(values)
    except TypeError as error:
        raise InputError(f"key column {name!r} has {error}; allowed are whole numbers and texts, one a row.") from None


def add_weighted(into: Ints, counts: Counts, drawn: Weights) -> None:
    """Add what samples count in each replicate to a tally of each, exactly.

    Args:
        into: int64, shape [replicates, size].
        counts: of n samples.
        drawn: shape [replicates, n].

    Raises:
        InputError: amounts that are so many that float64 could not add those of one sample.
    """
    num_samples = len(counts.cells)
    if not counts.cells.size:
        return
    cells = counts.cells.reshape(num_samples, -1)
    amounts = None if counts.amounts is None else counts.amounts.reshape(num_samples, -1)
    largest = 1 if amounts is None else int(np.abs(amounts).max())
    at_once = 2**53 // (max(1, largest) * LARGEST_WEIGHT * cells.shape[1])  # samples whose sums float64 has
    if not at_once:
        raise InputError(f"a metric adds up to {largest} to {cells.shape[1]} cells for a sample; that is too much.")
    for start in range(0, num_samples, at_once):
        part = slice(start, start + at_once)
        _add_part(into, cells[part], None if amounts is None else amounts[part].astype(np.float64), drawn[:, part])


def _add_part(into: Ints, cells: Ints, amounts: Floats | None, drawn: Weights) -> None:
    (num_samples, width), size = cells.shape, into.shape[1]
    used, places = (None, cells) if 8 * width >= size else _compressed(cells, size)
    num_used = size if used is None else len(used)
    if num_used <= 8 * width and num_samples * num_used <= 2**24:
        # What a sample adds to each cell, times the weights, is a product of matrices.
        rows = places + np.arange(num_samples)[:, np.newaxis] * num_used
        each = np.bincount(rows.ravel(), None if amounts is None else amounts.ravel(), num_samples * num_used)
        sums = drawn.astype(np.float64) @ each.reshape(num_samples, num_used)
        if used is None:
            into += sums.astype(np.int64)
        else:
            into[:, used] += sums.astype(np.int64)
        return
    # Counting into all cells costs less than telling which they are, unless most are not there.
    if used is None or size <= 4 * cells.size:
        used, num_used, places = None, size, cells
    flat = places.ravel()
    for replicate, weight in enumerate(drawn):
        each = weight if width == 1 else np.repeat(weight, width)
        sums = np.bincount(flat, each if amounts is None else each * amounts.ravel(), num_used).astype(np.int64)
        if used is None:
            into[replicate] += sums
        else:
            into[replicate, used] += sums


def _compressed(cells: Ints, size: int) -> tuple[Ints, Ints]:
    """The cells that occur, and the place of each cell among them, of the shape of `cells`."""
    if size > 4 * cells.size:
        used, places = np.unique(cells, return_inverse=True)
        return used, places.reshape(cells.shape)
    used = np.flatnonzero(np.bincount(cells.ravel(), minlength=size))
    places = np.zeros(size, dtype=np.int64)
    places[used] = np.arange(len(used))
    return used, places[cells]
