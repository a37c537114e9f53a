"""The counts of a rank: one vector of int64, laid out beforehand, whatever the number of samples.

    [ header | tallies of all samples | of each slice | columns that replicates use ]

A tally of several groups is a table of shape [groups, size], and so are those of slices of one column, which are
counted at once. Groups other than that of all samples may have coarser tallies.

What replicates count is a second vector. Ranks learn from the first which columns any of them uses, and add up those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from drivetrain.training.metric import Counts, HasCarry, Ints, Samples, Tally
from drivetrain.training.metric_states.numbers.hashing import Hashes
from drivetrain.training.metric_states.room import Room
from drivetrain.training.metric_states.table import Table, add, checked, growth, shifted
from drivetrain.training.metric_states.tally_set import TallySet
from drivetrain.training.metric_states.uncertainty import bootstrap

# Of a cell, over all ranks.
_FULL = 2**62
# Samples, or cells that they add to, for which replicates are drawn and counted at once.
_DRAWN_SAMPLES, _DRAWN_CELLS = 1 << 13, 1 << 18


class State:
    """The vector of one rank.

    Args:
        room: what is counted for which groups, within the available memory.
        header: cells at the beginning of the vector that are the caller's.
        seed: of the bootstrap.
        num_ranks: whose vectors will be added up.
    """

    def __init__(self, room: Room, *, header: int = 0, seed: int = 0, num_ranks: int = 1) -> None:
        self.room = room
        self.vector = np.zeros(header + room.num_summed, dtype=np.int64)
        self.header = self.vector[:header]
        self._seed = seed
        self._full = _FULL // num_ranks
        self._free = header
        self._whole = self._tables(room.whole, 1)
        self._sliced = [self._tables(room.sliced, count) for count in room.num_values]
        self._drawn = self._drawn_tables(room.drawn, 1)
        self._drawn_sliced = [self._drawn_tables(room.drawn_sliced, count) for count in room.num_values]
        self._in_use = self.vector[self._free :]
        self._waiting: list[_Batch] = []

    def update(self, samples: Samples, numbers: Sequence[Ints] = (), keys: Hashes | None = None) -> None:
        """Count the samples of a batch.

        Args:
            numbers: for each column that is sliced by, which slice each sample is in, shape [n].
            keys: hashes of the samples' keys, shape [n], where there are replicates.

        Raises:
            InputError: samples that a tally cannot count.
        """
        counts = {tally: checked(tally, tally.count(samples)) for tally in self.room.tallies}
        for table in self._whole:
            add(table, counts[table.tally], self._full)
        for tables, slices in zip(self._sliced, numbers, strict=True):
            for table in tables:
                add(table, shifted(counts[table.tally], slices, table.tally.size), self._full)
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
        for table in (*self._whole, *chain(*self._sliced), *self._all_drawn):
            if isinstance(table.tally, HasCarry):
                table.settle()
        for table, in_use in self._with_columns():
            in_use[table.columns] = 1
        return self.vector

    def replicates_in_use(self) -> Ints:
        """The counts of replicates, in the columns that any rank uses, ready to be added up; the vector has been,
        and so is of the same length on all ranks."""
        columns = [np.flatnonzero(in_use) for _, in_use in self._with_columns()]
        vector = np.zeros(self.room.replicates * sum(map(len, columns)), dtype=np.int64)
        start = 0
        for table, used in zip(self._all_drawn, columns, strict=True):
            end = start + self.room.replicates * len(used)
            table.move(used, vector[start:end])
            start = end
        return vector

    # What was counted: the cells of each tally of a group.

    def whole(self) -> list[Ints]:
        return [table.cells[0] for table in self._whole]

    def slices(self, column: int) -> Iterator[list[Ints]]:
        """Those of each value of a column."""
        for value in range(self.room.num_values[column]):
            yield [table.cells[value] for table in self._sliced[column]]

    def replicates(self) -> Iterator[list[Ints]]:
        """Those of each; they are overwritten when the next are asked for."""
        return _each(self._drawn, 0)

    def slice_replicates(self, column: int, value: int) -> Iterator[list[Ints]]:
        """As `replicates`."""
        return _each(self._drawn_sliced[column] if self._drawn else [], value)

    def _tables(self, tallies: TallySet, groups: int) -> list[Table]:
        tables = []
        for tally in tallies.tallies:
            cells = self.vector[self._free : self._free + groups * tally.size]
            tables.append(Table(tally, cells.reshape(groups, tally.size)))
            self._free += len(cells)
        return tables

    def _drawn_tables(self, tallies: TallySet, groups: int) -> list[DrawnTable]:
        replicates = self.room.replicates
        return [DrawnTable(tally, groups, replicates) for tally in tallies.tallies] if replicates else []

    @property
    def _all_drawn(self) -> list[DrawnTable]:
        return [*self._drawn, *chain(*self._drawn_sliced)]

    def _with_columns(self) -> Iterator[tuple[DrawnTable, Ints]]:
        """The tables of replicates, and which of the columns of each are in use."""
        start = 0
        for table in self._all_drawn:
            yield table, self._in_use[start : start + table.num_columns]
            start += table.num_columns

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
                table.add(part.counts[table.tally], drawn, self._full)
            for tables, slices in zip(self._drawn_sliced, part.numbers, strict=True):
                for table in tables:
                    table.add(shifted(part.counts[table.tally], slices, table.tally.size), drawn, self._full)


def _each(tables: Sequence[DrawnTable], group: int) -> Iterator[list[Ints]]:
    """The cells of a group in each replicate, of all tables."""
    return map(list, zip(*(table.each(group) for table in tables), strict=True))


@dataclass(frozen=True)
class _Batch:
    """The contributions of samples to tallies, with their slices and keys."""

    counts: dict[Tally, Counts]
    numbers: list[Ints]
    keys: Hashes

    @property
    def shapes(self) -> list[tuple[object, ...]]:
        """The shapes of what a sample adds. Batches of the same shapes can be joined."""
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


class DrawnTable(Table):
    """Cells of shape [replicates, columns], of the columns of a table [groups, size] that `columns` lists, rising.

    A few hundred samples use a few per cent of the bins of their scores: 357 samples of ten classes in 200 replicates
    would fill 188 MB and use 6 MB of it.
    """

    def __init__(self, tally: Tally, groups: int, replicates: int) -> None:
        self.num_columns = groups * tally.size
        # What a tally carries may get into any column.
        self.columns = np.arange(self.num_columns if isinstance(tally, HasCarry) else 0)
        super().__init__(tally, np.zeros((replicates, len(self.columns)), np.int64))

    def add(self, counts: Counts, drawn: bootstrap.Weights, full: int) -> None:
        """Count samples in each replicate as often as they are drawn."""
        self.make_room(growth(counts) * bootstrap.LARGEST_WEIGHT, full)
        cells = counts.cells
        if len(self.columns) < self.num_columns:
            self._use(cells)
        if len(self.columns) < self.num_columns:
            cells = np.searchsorted(self.columns, cells)
        bootstrap.add_weighted(self.cells, Counts(cells, counts.amounts), drawn)

    def _use(self, columns: Ints) -> None:
        """
        Args:
            columns: of any shape and order.

        Raises:
            ValueError: columns that there are not.
        """
        if columns.size and not 0 <= columns.min() <= columns.max() < self.num_columns:
            raise ValueError(f"{self.tally} counts in cells {columns.min()} to {columns.max()} of {self.num_columns}")
        in_use = np.zeros(self.num_columns, bool)
        in_use[self.columns] = in_use[columns] = True
        wanted = np.flatnonzero(in_use)
        if 2 * len(wanted) > self.num_columns:  # the others are likely to follow
            wanted = np.arange(self.num_columns)
        if len(wanted) > len(self.columns):
            self.move(wanted, np.zeros(len(self.cells) * len(wanted), np.int64))

    def move(self, columns: Ints, room: Ints) -> None:
        """Hold `columns`, all of the present ones among them, in `room`: zeros, shape [replicates * columns]."""
        cells = room.reshape(len(self.cells), len(columns))
        if len(columns) == len(self.columns):
            cells[:] = self.cells
        else:
            cells[:, np.searchsorted(columns, self.columns)] = self.cells
        self.columns, self.cells = columns, cells

    def each(self, group: int = 0) -> Iterator[Ints]:
        """The cells of a group in each replicate, shape [size]; they are overwritten when the next are asked for."""
        first, size = group * self.tally.size, self.tally.size
        start, end = np.searchsorted(self.columns, [first, first + size]).tolist()
        if end - start == size:
            yield from self.cells[:, start:end]
            return
        found, places = np.zeros(size, np.int64), self.columns[start:end] - first
        for cells in self.cells[:, start:end]:
            found[places] = cells
            yield found
