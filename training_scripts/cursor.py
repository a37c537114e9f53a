"""Which samples come next: a pure function of (seed, epoch, position), whatever the number of processes.

The cursor is one number, the count of samples consumed since the start of training. An epoch visits each sample once,
in an order that no table holds: a keyed permutation computes the sample at any position, so that memory is O(1) and
going to the middle of an epoch costs nothing. A global batch never crosses the end of an epoch; the last one of an
epoch may be smaller.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Eight rounds of a well-mixed round function; four already give a pseudo-random permutation (Luby and Rackoff, 1988).
_ROUNDS = 8

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """The order of `num_samples` samples in global batches of `global_batch`, for every epoch."""

    num_samples: int
    global_batch: int
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.num_samples // self.global_batch)

    def batch(self, consumed: int) -> Indices:
        """The global batch that follows after `consumed` samples: int64 indices, shape [global_batch or fewer]."""
        epoch, start = divmod(consumed, self.num_samples)
        stop = min(start + self.global_batch, self.num_samples)
        positions = np.arange(start, stop, dtype=np.uint64)
        return permute(positions, self.num_samples, key=f"{self.seed}/{epoch}")


def share(batch: Indices, rank: int, world_size: int) -> Indices:
    """The part of a global batch that `rank` works on: contiguous parts whose sizes differ by at most one."""
    return batch[len(batch) * rank // world_size : len(batch) * (rank + 1) // world_size]


def permute(positions: NDArray[np.uint64], num_samples: int, *, key: str) -> Indices:
    """Map positions in [0, num_samples) to sample indices, one to one, by a permutation that `key` chooses.

    A Feistel network permutes the next power of four; a result outside the range is mapped again until it falls
    inside ("cycle walking", Black and Rogaway, 2002), fewer than four times on average.
    """
    half_bits = max(1, (max(num_samples - 1, 1).bit_length() + 1) // 2)
    round_keys = np.frombuffer(hashlib.blake2b(key.encode(), digest_size=8 * _ROUNDS).digest(), dtype="<u8")
    result = _feistel(positions, half_bits, round_keys)
    while (outside := result >= num_samples).any():
        result[outside] = _feistel(result[outside], half_bits, round_keys)
    return result.astype(np.int64)


def _feistel(values: NDArray[np.uint64], half_bits: int, round_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for round_key in round_keys:
        left, right = right, left ^ (_mix(right + round_key) & mask)
    return (left << shift) | right


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every input bit reaches every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
