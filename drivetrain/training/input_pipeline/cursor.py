"""The order of samples: a pure function of (seed, epoch, position), whatever the number of processes.

The cursor is one number, the count of samples consumed since the start of training. Going to the middle of an epoch
costs nothing, for no order is drawn from a generator that has to be wound forward. A global batch never crosses the end
of an epoch; the last one of an epoch may be smaller, unless it is dropped.

    Order           each sample once an epoch, by a keyed permutation: no table, O(1) memory
    WeightedOrder   drawn with replacement by weights: one table of as many numbers as samples
    StreamOrder     each sample once an epoch, file after file, shuffled inside windows: what streams need
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.draws import mix

# Eight rounds of a well-mixed round function; four already give a pseudo-random permutation (Luby and Rackoff, 1988).
_ROUNDS = 8
# Positions that are computed at once: numpy's cost a call, spread over them, leaves under 0.1 µs a sample. After a seek
# fewer, so that the first batch is there soon, and then more each time.
_FIRST_BLOCK, _BLOCK = 1024, 8192

Indices = NDArray[np.int64]


class Order:
    """The order of `num_rows` samples in global batches of `global_batch`, for every epoch.

    Args:
        num_rows: samples there are.
        drop_last: leave out the last, smaller batch of an epoch (other samples in each).

    Raises:
        InputError: no sample at all, or not one whole batch of them with `drop_last`.
    """

    def __init__(self, num_rows: int, global_batch: int, seed: int, *, drop_last: bool = False) -> None:
        if num_rows < 1 or global_batch < 1:
            raise InputError(f"{num_rows} samples in batches of {global_batch}; allowed are whole numbers from 1.")
        if drop_last and num_rows < global_batch:
            raise InputError(
                f"drop_last leaves nothing of {num_rows} samples in batches of {global_batch}. "
                f"Give a global_batch of at most {num_rows}, or keep the last batch."
            )
        self.num_rows = num_rows
        self.global_batch = global_batch
        self.seed = seed
        self.drop_last = drop_last
        self.num_samples = num_rows - num_rows % global_batch if drop_last else num_rows
        """Samples of an epoch."""
        # Epoch, first position, rows, and how many were computed at once.
        self._held: tuple[int, int, Indices, int] = (-2, 0, np.zeros(0, dtype=np.int64), 0)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.num_samples // self.global_batch)

    def batch(self, consumed: int) -> Indices:
        """The global batch that follows after `consumed` samples: int64 indices, shape [global_batch or fewer]."""
        epoch, start = divmod(consumed, self.num_samples)
        stop = min(start + self.global_batch, self.num_samples)
        held_epoch, first, rows, block = self._held
        if epoch != held_epoch or start < first or stop > first + len(rows):
            behind = epoch == held_epoch and first <= start <= first + len(rows)
            reads_on = behind or (epoch == held_epoch + 1 and start == 0)
            block = max(min(4 * block if reads_on else _FIRST_BLOCK, self._block), self.global_batch)
            first = start
            last = min(start + block, self.num_samples)
            rows = self.rows(epoch, np.arange(first, last, dtype=np.uint64))
            rows.flags.writeable = False
            self._held = epoch, first, rows, block  # at once: another thread may ask too
        return rows[start - first : stop - first]

    def rows(self, epoch: int, positions: NDArray[np.uint64]) -> Indices:
        """The samples at positions in [0, num_rows) of an epoch, shape as `positions`."""
        return permute(positions, self.num_rows, key=f"{self.seed}/{epoch}")

    def seeds(self, epoch: int, positions: NDArray[np.uint64], rows: Indices) -> NDArray[np.uint64]:
        """A seed for each of the samples `rows` at `positions` of an epoch: a pure function of (seed, epoch, sample).

        (Where a sample may come twice in an epoch, of its position: the two are not to look alike.)
        """
        return _hash(rows.astype(np.uint64), f"{self.seed}/{epoch}/seeds")

    @property
    def _block(self) -> int:
        return _BLOCK


class WeightedOrder(Order):
    """As many draws an epoch as there are samples, with replacement: a sample comes as often as its weight says.

    Args:
        weights: shape [samples], from 0; only their ratios matter.

    Raises:
        InputError: a weight that is negative or not finite, or no weight above 0.
    """

    def __init__(self, weights: ArrayLike, global_batch: int, seed: int, *, drop_last: bool = False) -> None:
        table = np.asarray(weights, dtype=np.float64)
        super().__init__(len(table), global_batch, seed, drop_last=drop_last)
        wrong = np.flatnonzero(~(np.isfinite(table) & (table >= 0)))
        if wrong.size:
            raise InputError(
                f"weight {table[wrong[0]]} of row {wrong[0] + 1} ({wrong.size} such); allowed are numbers from 0."
            )
        self._cumulative = np.cumsum(table)
        if not 0 < self._cumulative[-1] < np.inf:
            raise InputError(f"the weights of all {len(table)} samples add up to {self._cumulative[-1]}.")

    def rows(self, epoch: int, positions: NDArray[np.uint64]) -> Indices:
        total = self._cumulative[-1]
        uniform = (_hash(positions, f"{self.seed}/{epoch}/draws") >> np.uint64(11)) * 2.0**-53
        # The product may round up to the total, which lies beyond the last sample.
        return np.searchsorted(self._cumulative, np.minimum(uniform * total, np.nextafter(total, 0.0)), side="right")

    def seeds(self, epoch: int, positions: NDArray[np.uint64], rows: Indices) -> NDArray[np.uint64]:
        return _hash(positions, f"{self.seed}/{epoch}/seeds")


def balanced_weights(labels: NDArray[np.generic]) -> NDArray[np.float64]:
    """Weights with which each class that occurs is drawn equally often; labels and weights have shape [samples]."""
    _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / counts[numbers]


class StreamOrder(Order):
    """Each sample once an epoch, near its neighbours: what is cheap for data that is read from start to end.

    Files come one after the other in an order of their own each epoch, and what follows from that is shuffled inside
    consecutive windows. So a reader holds one window, and a seek costs one.

    Args:
        shards: samples of each file; they are numbered through in this order.
        window: samples of a window.

    Raises:
        InputError: a window below 1.
    """

    def __init__(
        self, shards: Sequence[int], window: int, global_batch: int, seed: int, *, drop_last: bool = False
    ) -> None:
        super().__init__(sum(shards), global_batch, seed, drop_last=drop_last)
        if window < 1:
            raise InputError(f"shuffle_window={window}; allowed are whole numbers from 1.")
        self.window = window
        self._shards = np.asarray(shards, dtype=np.int64)
        self._first_rows = np.cumsum(self._shards) - self._shards
        self._files: tuple[int, Indices, Indices] | None = None  # of one epoch

    def rows(self, epoch: int, positions: NDArray[np.uint64]) -> Indices:
        streamed = np.empty(len(positions), dtype=np.int64)
        windows = (positions // np.uint64(self.window)).astype(np.int64)
        for window in np.unique(windows).tolist():
            inside = windows == window
            first = window * self.window
            size = min(self.window, self.num_rows - first)
            key = f"{self.seed}/{epoch}/window/{window}"
            streamed[inside] = first + permute(positions[inside] - np.uint64(first), size, key=key)
        order, starts = self._order_of_files(epoch)
        number = np.searchsorted(starts, streamed, side="right") - 1
        return self._first_rows[order[number]] + streamed - starts[number]

    def _order_of_files(self, epoch: int) -> tuple[Indices, Indices]:
        """The files in the order of an epoch, and at which position each begins."""
        files = self._files  # read once: another thread may put another epoch's there
        if files is None or files[0] != epoch:
            count = len(self._shards)
            order = permute(np.arange(count, dtype=np.uint64), count, key=f"{self.seed}/{epoch}/files")
            sizes = self._shards[order]
            files = self._files = epoch, order, np.cumsum(sizes) - sizes
        return files[1], files[2]

    @property
    def _block(self) -> int:
        return min(_BLOCK, 16 * self.window)  # each window has a permutation of its own


def share(batch: Indices, rank: int, world_size: int) -> Indices:
    """The part of a global batch that `rank` works on: contiguous parts whose sizes differ by at most one."""
    return batch[len(batch) * rank // world_size : len(batch) * (rank + 1) // world_size]


def permute(positions: NDArray[np.uint64], num_samples: int, *, key: str) -> Indices:
    """Map positions in [0, num_samples) to sample indices, one to one, by a permutation that `key` chooses.

    A Feistel network permutes the next power of four; a result outside the range is mapped again until it falls
    inside ("cycle walking", Black and Rogaway, 2002), fewer than four times on average.
    """
    half_bits = max(1, (max(num_samples - 1, 1).bit_length() + 1) // 2)
    round_keys = _keys(key, _ROUNDS)
    if 2 * len(positions) < num_samples:
        table = None
        result = _feistel(positions, half_bits, round_keys)
    else:  # where most positions are asked for, mapping all there are once is cheaper than mapping some again
        table = _feistel(np.arange(4**half_bits, dtype=np.uint64), half_bits, round_keys)
        result = table[positions]
    outside = np.flatnonzero(result >= num_samples)
    while outside.size:
        again = _feistel(result[outside], half_bits, round_keys) if table is None else table[result[outside]]
        result[outside] = again
        outside = outside[again >= num_samples]
    return result.astype(np.int64)


def _keys(key: str, number: int) -> NDArray[np.uint64]:
    return np.frombuffer(hashlib.blake2b(key.encode(), digest_size=8 * number).digest(), dtype="<u8")


def _hash(counters: NDArray[np.uint64], key: str) -> NDArray[np.uint64]:
    """A keyed hash of each counter: a generator whose n-th number costs the same as its first."""
    first, second = _keys(key, 2)
    return mix(mix(counters + first) ^ second)


def _feistel(values: NDArray[np.uint64], half_bits: int, round_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for round_key in round_keys:
        mixed = mix(right + round_key)
        mixed &= mask
        mixed ^= left
        left, right = right, mixed
    return (left << shift) | right
