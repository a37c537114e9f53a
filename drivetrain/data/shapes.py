"""How the values of a column are distributed; the entries are described in manifest.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.data.arrow import Array, DataType, arrow
from drivetrain.data.sketches import Distinct, Quantiles

# The quantiles of a column of numbers, beside the least and the greatest value, and the bins of its histogram.
FRACTIONS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BINS = 20


class Shape:
    """How values are distributed: quantiles and a histogram of numbers, and how many different ones there are."""

    def __init__(self, data_type: DataType) -> None:
        self._counts = is_number(data_type)
        self._quantiles = Quantiles()
        self._distinct = Distinct()
        self._half = arrow().types.is_float16(data_type)

    @property
    def different(self) -> Distinct:
        return self._distinct

    def quantiles(self, fractions: Sequence[float]) -> list[float]:
        """Quantiles of numbers; none for other columns, and for no values."""
        return self._quantiles.at(fractions)

    def count_distinct(self, column: Array) -> None:
        self._distinct.add(column)

    def merge(self, later: Shape) -> None:
        """Take in the shape of other rows."""
        self._quantiles.merge(later._quantiles)
        self._distinct.merge(later._distinct)

    def add(self, column: Array, *, distinct: bool) -> None:
        pa = arrow()
        if not distinct and not self._counts:
            return
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if self._half:
            column = column.cast(pa.float32())
        column = column.drop_null() if column.null_count else column
        if distinct:
            self._distinct.add(column)
        if self._counts:
            numbers = column.cast(pa.float64(), safe=False)
            if pa.types.is_floating(column.type):
                numbers = numbers.filter(pa.compute.is_finite(numbers))
            self._quantiles.add(numbers)

    def entries(self) -> dict[str, Any]:
        found: dict[str, Any] = {"distinct": self._distinct.estimate}
        if self._counts:
            fractions = [0.0, *FRACTIONS, 1.0]
            at = self._quantiles.at(fractions)
            named = zip(FRACTIONS, at[1:-1], strict=True) if at else ()
            found["quantiles"] = {str(fraction): value for fraction, value in named}
            edges = _edges(at[0], at[-1]) if at else []
            found["histogram"] = {"edges": edges, "rows": self._quantiles.rows_between(edges) if at else []}
        return found

    def state(self) -> dict[str, Any]:
        return {"quantiles": self._quantiles.state(), "distinct": self._distinct.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._quantiles = Quantiles.restored(state["quantiles"])
        self._distinct = Distinct.restored(state["distinct"])


def _edges(low: float, high: float) -> list[float]:
    """The edges of BINS bins of one width; of one bin if all values are equal, or too far apart for a float."""
    width = (high - low) / BINS
    if not 0 < width < math.inf or low + width == low:
        return [low, high]
    return [*(low + width * place for place in range(BINS)), high]


def is_number(data_type: DataType) -> bool:
    """Bools count as 0 and 1."""
    kinds = arrow().types
    return any(
        is_kind(data_type) for is_kind in (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
    )


def has_shape(data_type: DataType) -> bool:
    kinds = arrow().types
    return is_number(data_type) or any(
        is_kind(data_type) for is_kind in (kinds.is_string, kinds.is_binary, kinds.is_date32, kinds.is_timestamp)
    )
