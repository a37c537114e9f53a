"""A tally of some groups of samples, and what samples add to it: exact, and never beyond 64 bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts, HasCarry, Ints, Tally

# Sums of whole numbers that float64 has.
_EXACT = 2**53


@dataclass
class Table:
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
            self.tally.settle(self.cells.reshape(-1, self.tally.size))
        self.largest = max(int(self.cells.max(initial=0)), -int(self.cells.min(initial=0)))


def add(table: Table, counts: Counts, full: int) -> None:
    """Add what samples count to the cells of a table; each cell may become `full`."""
    table.make_room(growth(counts), full)
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
        elif cells.size >= into.size:
            found = np.bincount(cells, minlength=into.size)
            if len(found) != into.size:
                raise ValueError(f"{table.tally} counts in cell {len(found) - 1} of {into.size}")
            into += found
        else:
            _add_each(table.tally, into, cells, 1)
        return
    amounts = counts.amounts.reshape(-1)
    at_once = _EXACT * cells.size // max(1, growth(counts))
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


def shifted(counts: Counts, groups: Ints, size: int) -> Counts:
    """Counts for a table of groups; each sample is in one group."""
    if counts.cells.size and counts.cells.max() >= size:
        raise ValueError(f"a tally counts in cell {counts.cells.max()} of {size}")
    starts = groups * size
    return Counts(counts.cells + (starts if counts.cells.ndim == 1 else starts[:, np.newaxis]), counts.amounts)


def growth(counts: Counts) -> int:
    """By how much a cell can grow at most."""
    if counts.amounts is None or not counts.amounts.size:
        return counts.cells.size
    return counts.cells.size * max(int(counts.amounts.max()), -int(counts.amounts.min()))


def checked(tally: Tally, counts: Counts) -> Counts:
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
