"""What a rank has counted: one vector of int64, laid out beforehand, whatever the number of samples.

    [ header | tallies of all samples | of each slice | of each replicate | of each replicate of each slice ]

A tally of several groups is a table of shape [groups, size], and so are those of slices of one column, which are
counted at once. Groups other than that of all samples may have coarser tallies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts, HasCarry, Ints, Samples, Tally
from drivetrain.training.metric_states.numbers.hashing import Hashes
from drivetrain.training.metric_states.room import Room
from drivetrain.training.metric_states.tally_set import TallySet
from drivetrain.training.metric_states.uncertainty import bootstrap

# Sums of whole numbers that float64 has.
_EXACT = 2**53
# Of a cell, over all ranks.
_FULL = 2**62
# Samples, or cells that they add to, for which replicates are drawn and counted at once.
_DRAWN_SAMPLES, _DRAWN_CELLS = 1 << 13, 1 << 18


@dataclass
class _Table:
    """A tally of some groups, shape [groups, size], and what the magnitude of a cell is at most."""

    tally: Tally
    cells: Ints
    largest: int = 0

    def make_room(self, growth: int, full: int) -> None:
        """Before a cell grows by at most `growth`, to at most `full`.

        Raises:
            InputError: it could become more.
        """
        if self.largest + growth > full:
            self.settle()
            if self.largest + growth > full:
                raise InputError(f"{self.tally} adds up to more than 64 bits hold; a metric must count less a sample.")
        self.largest += growth

    def settle(self) -> None:
        if isinstance(self.tally, HasCarry):
            self.tally.settle(self.cells)
        self.largest = max(int(self.cells.max(initial=0)), -int(self.cells.min(initial=0)))


class State:
    """The vector of one rank.

    Args:
        room: what is counted of which groups, within the memory that there is.
        header: cells at the beginning of the vector that are the caller's.
        seed: of the bootstrap.
        num_ranks: whose vectors will be added up.
    """

    def __init__(self, room: Room, *, header: int = 0, seed: int = 0, num_ranks: int = 1) -> None:
        self.room = room
        self.vector = np.zeros(header + room.size, dtype=np.int64)
        self.header = self.vector[:header]
        self._seed = seed
        self._full = _FULL // num_ranks
        self._free = header
        replicates = room.replicates
        self._whole = self._tables(room.whole, 1)
        self._sliced = [self._tables(room.sliced, count) for count in room.num_values] if room.num_values else []
        self._drawn = self._tables(room.drawn, replicates) if replicates else []
        self._drawn_sliced = (
            [self._tables(room.drawn_sliced, replicates * count) for count in room.num_values] if replicates else []
        )
        assert self._free == len(self.vector)
        self._waiting: list[_Batch] = []

    def update(self, samples: Samples, numbers: Sequence[Ints] = (), keys: Hashes | None = None) -> None:
        """Count the samples of a batch.

        Args:
            numbers: for each column that is sliced by, which slice each sample is in, shape [n].
            keys: hashes of the samples' keys, shape [n], where there are replicates.

        Raises:
            InputError: samples that a tally cannot count.
        """
        counts = {tally: _checked(tally, tally.count(samples)) for tally in self.room.tallies}
        for table in self._whole:
            _add(table, counts[table.tally], self._full)
        for tables, slices in zip(self._sliced, numbers, strict=True):
            for table in tables:
                _add(table, _shifted(counts[table.tally], slices, table.tally.size), self._full)
        if self._drawn:
            assert keys is not None
            batch = _Batch({tally: counts[tally] for tally in self.room.drawn_tallies}, list(numbers), keys)
            if self._waiting and self._waiting[-1].shapes != batch.shapes:
                self._draw()
            self._waiting.append(batch)
            if (
                sum(len(one.keys) for one in self._waiting) >= _DRAWN_SAMPLES
                or sum(one.num_cells for one in self._waiting) >= _DRAWN_CELLS
            ):
                self._draw()

    def finish(self) -> Ints:
        """The vector, ready to be added up: what was counted so far is in it, and its cells have room for that of other
        ranks."""
        self._draw()
        for tables in (self._whole, self._drawn, *self._sliced, *self._drawn_sliced):
            for table in tables:
                if isinstance(table.tally, HasCarry):
                    table.settle()
        return self.vector

    # What was counted: the cells of each tally of a group.

    def whole(self) -> list[Ints]:
        return [table.cells[0] for table in self._whole]

    def slices(self, column: int) -> Iterator[list[Ints]]:
        """Those of each value of a column."""
        for value in range(self.room.num_values[column]):
            yield [table.cells[value] for table in self._sliced[column]]

    def replicates(self) -> Iterator[list[Ints]]:
        for replicate in range(self.room.replicates):
            yield [table.cells[replicate] for table in self._drawn]

    def slice_replicates(self, column: int, value: int) -> Iterator[list[Ints]]:
        count = self.room.num_values[column]
        for replicate in range(self.room.replicates):
            yield [table.cells[replicate * count + value] for table in self._drawn_sliced[column]]

    def _tables(self, tallies: TallySet, groups: int) -> list[_Table]:
        tables = []
        for tally in tallies.tallies:
            cells = self.vector[self._free : self._free + groups * tally.size]
            tables.append(_Table(tally, cells.reshape(groups, tally.size)))
            self._free += len(cells)
        return tables

    def _draw(self) -> None:
        """Count the samples that wait, in each replicate as often as they are drawn."""
        if not self._waiting:
            return
        batch = _joined(self._waiting)
        self._waiting = []
        for start in range(0, len(batch.keys), _DRAWN_SAMPLES):
            part = batch.part(slice(start, start + _DRAWN_SAMPLES))
            drawn = bootstrap.weights(part.keys, self.room.replicates, self._seed)
            for table in self._drawn:
                self._draw_into(table, part.counts[table.tally], drawn)
            for tables, slices in zip(self._drawn_sliced, part.numbers, strict=True):
                for table in tables:
                    self._draw_into(table, _shifted(part.counts[table.tally], slices, table.tally.size), drawn)

    def _draw_into(self, table: _Table, counts: Counts, drawn: bootstrap.Weights) -> None:
        table.make_room(_growth(counts) * bootstrap.LARGEST_WEIGHT, self._full)
        bootstrap.add_weighted(table.cells.reshape(self.room.replicates, -1), counts, drawn)


@dataclass(frozen=True)
class _Batch:
    """What samples add to tallies, in which slices they are, and their keys."""

    counts: dict[Tally, Counts]
    numbers: list[Ints]
    keys: Hashes

    @property
    def shapes(self) -> list[tuple[object, ...]]:
        """Of what a sample adds. Batches of the same can be joined."""
        return [(found.cells.shape[1:], found.amounts is None) for found in self.counts.values()]

    @property
    def num_cells(self) -> int:
        return max(found.cells.size for found in self.counts.values())

    def part(self, part: slice) -> _Batch:
        counts = {
            tally: Counts(cells[part], None if amounts is None else amounts[part])
            for tally, (cells, amounts) in self.counts.items()
        }
        return _Batch(counts, [numbers[part] for numbers in self.numbers], self.keys[part])


def _joined(batches: list[_Batch]) -> _Batch:
    if len(batches) == 1:
        return batches[0]
    counts = {}
    for tally, first in batches[0].counts.items():
        amounts = None if first.amounts is None else np.concatenate([_amounts(one.counts[tally]) for one in batches])
        counts[tally] = Counts(np.concatenate([one.counts[tally].cells for one in batches]), amounts)
    numbers = [np.concatenate(columns) for columns in zip(*(one.numbers for one in batches), strict=True)]
    return _Batch(counts, numbers, np.concatenate([one.keys for one in batches]))


def _amounts(counts: Counts) -> Ints:
    assert counts.amounts is not None
    return counts.amounts


def _shifted(counts: Counts, groups: Ints, size: int) -> Counts:
    """Counts for a table of groups, of which each sample is in one."""
    if counts.cells.size and counts.cells.max() >= size:
        raise ValueError(f"a tally counts in cell {counts.cells.max()} of {size}")
    starts = groups * size
    return Counts(counts.cells + (starts if counts.cells.ndim == 1 else starts[:, np.newaxis]), counts.amounts)


def _growth(counts: Counts) -> int:
    """By how much a cell can grow at most."""
    if counts.amounts is None or not counts.amounts.size:
        return counts.cells.size
    return counts.cells.size * max(int(counts.amounts.max()), -int(counts.amounts.min()))


def _checked(tally: Tally, counts: Counts) -> Counts:
    """
    Raises:
        ValueError: a tally that counts what its contract does not have. (A mistake of the metric, not of the data.)
    """
    cells, amounts = counts
    if (
        cells.dtype.kind not in "iu"
        or cells.ndim not in (1, 2)
        or (amounts is not None and amounts.shape != cells.shape)
    ):
        raise ValueError(f"{tally} counts cells of type {cells.dtype}, shape {list(cells.shape)}")
    return counts


def _add(table: _Table, counts: Counts, full: int) -> None:
    """Add what samples count to the cells of a table, of which each may become `full`."""
    table.make_room(_growth(counts), full)
    into = table.cells.reshape(-1)
    cells = counts.cells.reshape(-1)
    if not cells.size:
        return
    if counts.amounts is None:
        if into.size <= 2:  # bincount would wait for the cell before, sample by sample
            if cells.min() < 0 or cells.max() >= into.size:
                raise ValueError(f"{table.tally} counts in cells {cells.min()} to {cells.max()} of {into.size}")
            ones = int(np.count_nonzero(cells))
            into[0] += len(cells) - ones
            into[-1] += ones
        elif 4 * cells.size >= into.size:
            found = np.bincount(cells, minlength=into.size)
            if len(found) != into.size:
                raise ValueError(f"{table.tally} counts in cell {len(found) - 1} of {into.size}")
            into += found
        else:
            _add_each(table.tally, into, cells, 1)
        return
    amounts = counts.amounts.reshape(-1)
    at_once = _EXACT * cells.size // max(1, _growth(counts))
    if 4 * cells.size < into.size or not at_once:
        _add_each(table.tally, into, cells, amounts)
        return
    for start in range(0, len(cells), at_once):
        part = slice(start, start + at_once)
        found = np.bincount(cells[part], amounts[part], into.size)
        if len(found) != into.size:
            raise ValueError(f"{table.tally} counts in cell {len(found) - 1} of {into.size}")
        into += found.astype(np.int64)


def _add_each(tally: Tally, into: Ints, cells: Ints, amounts: Ints | int) -> None:
    if cells.min() < 0:  # (numpy would count from the end)
        raise ValueError(f"{tally} counts in cell {cells.min()}")
    np.add.at(into, cells, amounts)
