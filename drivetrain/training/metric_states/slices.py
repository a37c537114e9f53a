"""Slices: the samples with each value of a column. The values are known before any row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Ints

_SHOWN = 8
CROSS = "*"
MISSING = "missing"
"""The value of empty cells, and of NaN."""
MOST_COMBINED = 256


@dataclass(frozen=True)
class SliceColumn:
    """A column and all its values (whole numbers, truths or texts), each of them a slice."""

    name: str
    values: tuple[int | bool | str, ...]
    crossed: tuple[SliceColumn, ...] = ()
    """The columns whose values are combined; the values are texts then, as `east*phone`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that are read."""
        return tuple(each.name for each in self.crossed) or (self.name,)

    def places(self, columns: Mapping[str, NDArray[Any]], rows: Ints) -> Ints:
        """As `numbers`, of the columns of the data by their names."""
        if not self.crossed:
            return self.numbers(columns[self.name], rows)
        found = np.zeros(len(rows), np.int64)
        for each in self.crossed:
            found = found * len(each.values) + each.numbers(columns[each.name], rows)
        return found

    def numbers(self, values: NDArray[Any], rows: Ints) -> Ints:
        """The number of each sample's slice, shape [n].

        Args:
            values: of the column, shape [n].
            rows: the row numbers, for messages.

        Raises:
            InputError: a value is not one of them.
        """
        if values.ndim == 1 and values.dtype.kind in "iu" and self._sorted is not None:
            known, order = self._sorted
            places = np.minimum(np.searchsorted(known, values), len(known) - 1)
            found = np.where(known[places] == values, order[places], -1)
        else:
            given = values.tolist() if values.ndim == 1 else [()] * len(values)
            given = [MISSING if each is None or each != each else each for each in given]
            found = np.fromiter(map(self._places.get, given, repeat(-1)), np.int64, len(values))
        if found.size and found.min() < 0:
            first = int(np.flatnonzero(found < 0)[0])
            given = values[first : first + 1].tolist()[0]
            shown = ", ".join(repr(value) for value in self.values[:_SHOWN])
            more = ", ..." if len(self.values) > _SHOWN else ""
            raise InputError(
                f"row {rows[first]}, counted from 0: column {self.name!r} is to be sliced by, and has {given!r}, which "
                f"is not among its values in the data's manifest ({shown}{more}). Prepare the data again."
            )
        return found

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints] | None:
        """The values in order, and their places; None where they are no whole numbers."""
        if not all(isinstance(value, int) and abs(value) < 2**62 for value in self.values):
            return None
        known = np.array(self.values, dtype=np.int64)
        order = np.argsort(known)
        return known[order], order


def cross(columns: Sequence[SliceColumn]) -> SliceColumn:
    """The column of all combinations of some columns' values.

    Raises:
        InputError: there are too many.
    """
    name = CROSS.join(each.name for each in columns)
    combined = tuple(CROSS.join(map(str, values)) for values in product(*(each.values for each in columns)))
    if len(combined) > MOST_COMBINED:
        raise InputError(f"slices: {name} has {len(combined):,} combinations of values. Allowed: {MOST_COMBINED}.")
    return SliceColumn(name, combined, tuple(columns))
