"""Proof that each row was counted exactly once, whichever rank counted it.

Rows are counted in runs, from one row to before another: a batch is one run, or a few. A run adds the hash of its end
and takes away that of its start. Over all ranks this comes to hash(number of rows) - hash(0) if each row was counted
once: of a run's end and the next one's start, wherever that was counted, nothing is left. And only then, but for a
chance of 2**-128: how often rows were counted is known from where that changes, and by how much.
"""

from __future__ import annotations

import numpy as np

from drivetrain.training.input_pipeline.draws import STEP, mix
from drivetrain.training.metric import Ints
from drivetrain.training.metric_states.numbers.hashing import BLOCK

SIZE = 6
"""Cells: how many rows were counted, how many there are, and the differences of two sums of hashes, in halves."""

_SECOND = np.uint64(0xD6E8FEB86659FD93)
_HALF = 2**32 - 1


class CoverageError(RuntimeError):
    """Rows were counted twice or not at all: a mistake of the program, not of its input."""


class Coverage:
    """The rows that one rank has counted, of its share of `num_rows` rows as `rank` of `world_size`."""

    def __init__(self, num_rows: int, rank: int, world_size: int) -> None:
        self._num_counted = 0
        share = slice(num_rows * rank // world_size, num_rows * (rank + 1) // world_size)
        self._num_expected = share.stop - share.start
        self._first = self._second = 0
        # Runs that are not hashed yet: what numpy takes for a few numbers it takes for many.
        self._starts, self._ends = [share.stop], [share.start]

    def count(self, rows: Ints) -> None:
        """Row numbers, shape [n]."""
        if not len(rows):
            return
        self._num_counted += len(rows)
        follows = rows[1:] - rows[:-1] == 1
        if follows.all():
            self._starts.append(int(rows[0]))
            self._ends.append(int(rows[-1]) + 1)
            if len(self._starts) >= BLOCK:
                self._settle()
            return
        breaks = np.flatnonzero(~follows)
        self._add(rows[np.append(0, breaks + 1)], rows[np.append(breaks, len(rows) - 1)] + 1)

    def _settle(self) -> None:
        self._add(np.array(self._starts, np.int64), np.array(self._ends, np.int64))
        self._starts, self._ends = [], []

    def _add(self, starts: Ints, ends: Ints) -> None:
        for start in range(0, len(starts), BLOCK):
            added, taken = (_sums(numbers[start : start + BLOCK].astype(np.uint64)) for numbers in (ends, starts))
            self._first += added[0] - taken[0]
            self._second += added[1] - taken[1]

    def cells(self) -> Ints:
        """To be added up over the ranks; shape [SIZE]."""
        self._settle()
        first, second = self._first % 2**64, self._second % 2**64
        halves = (first & _HALF, first >> 32, second & _HALF, second >> 32)
        return np.array([self._num_counted, self._num_expected, *halves], dtype=np.int64)


def check(cells: Ints) -> int:
    """How many rows were counted, of the sum of all ranks' cells.

    Raises:
        CoverageError: it was not each row once.
    """
    counted, expected, *halves = cells.tolist()
    first, second = ((halves[place] + (halves[place + 1] << 32)) % 2**64 for place in (0, 2))
    if counted == expected and not first and not second:
        return counted
    said = f"{counted} rows were counted of {expected}"
    if counted < expected:
        said += f": {expected - counted} are missing, or more, and others counted twice"
    elif counted > expected:
        said += f": {counted - expected} were counted twice, or more, and others are missing"
    else:
        said += ", but some of them twice, and as many are missing"
    raise CoverageError(f"{said}. No number of this evaluation can be trusted; please report it.")


def _sums(numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> tuple[int, int]:
    """Two sums of hashes modulo 2**64; the numbers are overwritten."""
    numbers += np.uint64(STEP)
    hashes = mix(numbers)
    first = int(hashes.sum())
    hashes ^= hashes >> np.uint64(29)
    hashes *= _SECOND
    hashes ^= hashes >> np.uint64(32)
    return first, int(hashes.sum())
