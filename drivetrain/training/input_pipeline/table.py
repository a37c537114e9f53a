"""Columns in few arrays, so that a batch is one gather and not one a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from drivetrain.training.reader import Indices, Rows

# Column -> its dtype and the shape of one row.
Fields = Mapping[str, tuple[DTypeLike, tuple[int, ...]]]


@dataclass(frozen=True)
class Layout:
    """The array of each column: scalar columns of one dtype share an array of shape [rows, columns]."""

    places: dict[str, tuple[int, int | None]]
    shapes: list[tuple[tuple[int, ...], np.dtype[Any]]]
    """The shape and dtype of one row of each array."""

    @classmethod
    def of(cls, fields: Fields) -> Layout:
        groups: dict[np.dtype[Any], list[str]] = {}
        for name, (dtype, shape) in fields.items():
            if not shape:
                groups.setdefault(np.dtype(dtype), []).append(name)
        places: dict[str, tuple[int, int | None]] = {}
        shapes: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        for dtype, names in groups.items():
            if len(names) == 1:
                places[names[0]] = (len(shapes), None)
                shapes.append(((), dtype))
            else:
                places |= {name: (len(shapes), number) for number, name in enumerate(names)}
                shapes.append(((len(names),), dtype))
        for name, (dtype, shape) in fields.items():
            if shape:
                places[name] = (len(shapes), None)
                shapes.append((shape, np.dtype(dtype)))
        return cls(places, shapes)

    def of_rows(self, num_rows: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each array for that many rows, by its number."""
        return {str(number): ((num_rows, *shape), dtype) for number, (shape, dtype) in enumerate(self.shapes)}


class Table:
    """Rows in the arrays of a layout."""

    def __init__(self, layout: Layout, arrays: Sequence[NDArray[Any]]) -> None:
        self.layout = layout
        self.arrays = list(arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def set(self, name: str, start: int, values: NDArray[Any]) -> None:
        """Fill the rows from `start` of a column."""
        array, column = self.layout.places[name]
        target = self.arrays[array][start : start + len(values)]
        if column is None:
            target[...] = values
        else:
            target[:, column] = values

    def column(self, name: str) -> NDArray[Any]:
        """All rows of a column, as a view."""
        array, column = self.layout.places[name]
        return self.arrays[array] if column is None else self.arrays[array][:, column]

    def take(self, indices: Indices | slice, names: Sequence[str]) -> Rows:
        """Copies of the rows at `indices`, or views of those in a slice.

        Raises:
            IndexError: a row that is not there.
        """
        places = self.layout.places
        needed = {places[name][0] for name in names}
        if isinstance(indices, slice):
            cut = [array[indices] if number in needed else array for number, array in enumerate(self.arrays)]
        else:
            cut = [
                array.take(indices, axis=0) if number in needed else array for number, array in enumerate(self.arrays)
            ]
        return Rows({name: places[name] for name in names}, cut)
