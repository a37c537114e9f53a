"""Hashes of all rows. Only some are in memory; the others lie on the disk, in sorted runs.

Hashes are unsigned integers of 64 bits. Rows are compared by them: keys that occur twice, rows and groups that are on
several sides, the order in a stratum. All of that looks at one range of hashes after the other.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drivetrain.data.arrow import Array, numpy

# Hashes that are held before they go to the disk, and about how many are looked at together: 8 and 16 MiB.
RUN_HASHES = 1 << 20
PART_HASHES = 1 << 21
# A run is cut by the first bits of its hashes.
_RANGE_BITS = 10
# The table that rules hashes out has so many places a wanted hash, of at least and at most so many bits.
_PLACES_EACH, _LEAST_BITS, _MOST_BITS = 16, 22, 26
_AT_ONCE = 1 << 16


class Scratch:
    """A file without a name, made when it is first written to: nothing of it is left, however its process ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._size = 0
        self._lock = threading.Lock()

    def append(self, values: Any) -> int:
        """Write an array at the end; where it begins."""
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by `close`
            start = self._size
            self._file.seek(start)
            self._file.write(values.data)
            self._file.flush()
            self._size += values.nbytes
            return start

    def read(self, start: int, count: int) -> Any:
        """So many hashes from a place on."""
        with self._lock:
            self._file.seek(start)
            return numpy().frombuffer(self._file.read(8 * count), "<u8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class HashRuns:
    """Hashes that are added in any order, and read in theirs. At most `RUN_HASHES` of them stay in memory.

    Args:
        scratch: where the others go.
        unique: each hash counts once.
    """

    def __init__(self, scratch: Scratch, *, unique: bool = False) -> None:
        self._scratch = scratch
        self._unique = unique
        self._pending: list[Any] = []
        self._num_pending = 0
        # Of each run, where it begins in the file, and the places in it at which ranges begin.
        self._runs: list[tuple[int, Any]] = []
        self._num_written = 0

    def __len__(self) -> int:
        """How many there are; where each counts once, an upper bound."""
        return self._num_written + self._num_pending

    def add(self, hashes: Array) -> None:
        """Take in the next hashes: an array of uint64 without nulls."""
        np = numpy()
        added = np.asarray(hashes)
        added = ordered([added], unique=True) if self._unique else added
        self._pending.append(added)
        self._num_pending += len(added)
        if self._num_pending >= RUN_HASHES:
            self._end_run()

    def parts(self, number: int) -> Iterator[Any]:
        """All hashes in their order, in `number` (a power of 2) arrays: the same ranges of any HashRuns."""
        step = max(1, (1 << _RANGE_BITS) // number)
        last = ordered(self._pending, unique=self._unique)
        last_starts = _range_starts(last)
        for first in range(0, 1 << _RANGE_BITS, step):
            pieces = [last[last_starts[first] : last_starts[first + step]]]
            for place, starts in self._runs:
                start, end = int(starts[first]), int(starts[first + step])
                if end > start:
                    pieces.append(self._scratch.read(place + 8 * start, end - start))
            yield ordered(pieces, unique=self._unique)

    def repeated(self) -> Iterator[Any]:
        """Arrays of the hashes that occur more than once; each hash is in one of them."""
        for part in self.parts(num_parts(len(self))):
            again = part[1:][part[1:] == part[:-1]]
            if len(again):
                yield ordered([again], unique=True)

    def at(self, places: Sequence[int]) -> list[int]:
        """The hashes at these places of their order; the greatest one that can be for a place beyond the last."""
        found = [(1 << 64) - 1] * len(places)
        first = 0
        for part in self.parts(num_parts(len(self))):
            for index, place in enumerate(places):
                if first <= place < first + len(part):
                    found[index] = int(part[place - first])
            first += len(part)
        return found

    def _end_run(self) -> None:
        run = ordered(self._pending, unique=self._unique)
        self._pending, self._num_pending = [], 0
        if self._unique and len(run) < RUN_HASHES // 2:
            self._pending, self._num_pending = [run], len(run)
            return
        self._runs.append((self._scratch.append(run), _range_starts(run)))
        self._num_written += len(run)


class HashSet:
    """A set of hashes, to look up other hashes in."""

    def __init__(self, hashes: Array) -> None:
        np = numpy()
        self._wanted = np.sort(np.asarray(hashes, "<u8"))
        # Most others are ruled out by their first bits, and most of the rest by their last ones. Batches and tables are
        # small where they can be, so that both stay in a processor's cache.
        bits = min(max(_LEAST_BITS, (_PLACES_EACH * len(self._wanted)).bit_length()), _MOST_BITS)
        self._shift, self._mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        self._table, self._second_table = np.zeros(1 << bits, bool), np.zeros(1 << bits, bool)
        self._table[self._wanted >> self._shift] = True
        self._second_table[self._wanted & self._mask] = True
        # Written into again and again: new memory would be cleared by the system each time.
        self._first, self._is_likely = np.empty(_AT_ONCE, "<u8"), np.empty(_AT_ONCE, bool)

    def among(self, hashes: Array) -> Any:
        """Those of the hashes that are in the set; uint64, in their order."""
        np = numpy()
        likely = [np.empty(0, "<u8")]
        for start in range(0, len(hashes) if len(self._wanted) else 0, _AT_ONCE):
            part = np.asarray(hashes[start : start + _AT_ONCE])
            places = np.right_shift(part, self._shift, out=self._first[: len(part)]).view("<i8")
            is_likely = self._table.take(places, out=self._is_likely[: len(part)], mode="clip")
            rest = part[np.flatnonzero(is_likely)]
            likely.append(rest[self._second_table[rest & self._mask]])
        found = np.concatenate(likely)
        if not len(found):
            return found
        places = np.minimum(np.searchsorted(self._wanted, found), len(self._wanted) - 1)
        return found[self._wanted[places] == found]


def ordered(pieces: Sequence[Any], *, unique: bool = False) -> Any:
    """The hashes of arrays in one, in their order; each once where that is asked for."""
    np = numpy()
    found = np.concatenate([np.empty(0, "<u8"), *pieces])
    found.sort()
    if unique and len(found):  # numpy.unique takes ten times as long
        found = found[np.concatenate([[True], found[1:] != found[:-1]])]
    return found


def num_parts(count: int) -> int:
    """In how many parts so many hashes are looked at: a power of 2."""
    return min(1 << (count // PART_HASHES).bit_length(), 1 << _RANGE_BITS)


def _range_starts(ordered: Any) -> Any:
    """The places in sorted hashes at which ranges begin, and the end."""
    np = numpy()
    edges = np.arange(1 << _RANGE_BITS, dtype="<u8") << np.uint64(64 - _RANGE_BITS)
    return np.append(np.searchsorted(ordered, edges), len(ordered))
