"""A tally of some groups of samples in each replicate, in the columns that are in use.

A few hundred samples use a few per cent of the bins of their scores. 357 samples of ten classes in 200 replicates would
fill 188 MB, of which they use 6.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from drivetrain.training.metric import Counts, HasCarry, Ints, Tally
from drivetrain.training.metric_states.table import Table, growth
from drivetrain.training.metric_states.uncertainty import bootstrap


class DrawnTable(Table):
    """Cells of shape [replicates, columns], of the columns of a table [groups, size] that `columns` lists, rising."""

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
