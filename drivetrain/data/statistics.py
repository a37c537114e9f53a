"""Statistics of columns, gathered piece by piece; the entries are described in manifest.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, DataType, Schema, arrow
from drivetrain.data.convert import typed
from drivetrain.data.shapes import Shape, has_shape, is_number
from drivetrain.data.sketches import STATE_VERSION

# A label with more values than this is a quantity, or a key.
MAX_CLASSES = 100_000
# Columns with at most so many values are listed by value: what an evaluation can be sliced by.
MAX_VALUES = 256
# A longer text is no name of anything; and a manifest of a small data set must not hold its documents.
MAX_VALUE_LENGTH = 256
# Of all columns together: a table of thousands of columns must not have a manifest larger than itself.
MAX_ALL_VALUES = 10_000
# Days that stand for "always was" and "no end" in many data sets, and lie.
SENTINELS = ("1900-01-01", "9999-12-31")
# Rows that are looked at before all of a piece: a column of many values mostly shows them here.
_FIRST_ROWS = 1024


class TableStatistics:
    """Statistics of all columns of one data set; the values of the key are not counted."""

    def __init__(self, schema: Schema, label: str | None, *, key: str | None = None) -> None:
        pa = arrow()
        self._schema = schema
        self._columns = {field.name: _column(field.type) for field in schema}
        self._values = {field.name: _Values() for field in schema if field.name != key and _can_name_things(field.type)}
        self._shapes = {
            field.name: Shape(field.type) for field in schema if field.name != key and has_shape(field.type)
        }
        self._label = label
        self._counts_classes = label is not None and not pa.types.is_floating(schema.field(label).type)
        self.classes: dict[Any, int] = {}

    def add(self, table: Batch) -> None:
        """Take in the next rows.

        Raises:
            InputError: more than MAX_CLASSES classes.
        """
        for name, column in self._columns.items():
            column.add(table.column(name))
        for name, values in list(self._values.items()):
            if not values.add(table.column(name)):
                del self._values[name]
                if name in self._shapes:  # which did not count different values so far
                    self._shapes[name].count_distinct(values.seen(self._schema.field(name).type))
        for name, shape in self._shapes.items():
            shape.add(table.column(name), distinct=name not in self._values)
        if self._counts_classes:
            for count in table.column(self._label).value_counts():
                value, rows = count["values"].as_py(), count["counts"].as_py()
                self.classes[value] = self.classes.get(value, 0) + rows
            if len(self.classes) > MAX_CLASSES:
                raise InputError(
                    f"label: column {self._label!r} has more than {MAX_CLASSES:,} values, each of them a class. "
                    f"For a quantity give it a float type: {typed(self._label or '', 'float64')}."
                )

    def entries(self) -> dict[str, Mapping[str, Any]]:
        """The manifest's `statistics`."""
        found: dict[str, Mapping[str, Any]] = {name: column.entries() for name, column in self._columns.items()}
        for name, shape in self._shapes.items():
            values = self._values.get(name)
            found[name] = {
                **found[name],
                **shape.entries(),
                **({"distinct": len(values)} if values is not None else {}),
            }
        for name, values in self._listed_values().items():
            found[name] = {**found[name], "values": values}
        if self._label is not None and self._counts_classes:
            classes = [{"value": value, "rows": self.classes[value]} for value in sorted(self.classes)]
            found[self._label] = {**found[self._label], "distinct": len(classes), "classes": classes}
        return found

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `restore`: all that was gathered, so that more rows can be added later."""
        return {
            "version": STATE_VERSION,
            "columns": {name: column.state() for name, column in self._columns.items()},
            "shapes": {name: shape.state() for name, shape in self._shapes.items()},
            "values": {name: values.state() for name, values in self._values.items()},
            "classes": list(self.classes.items()),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what an earlier run had gathered of the same columns."""
        for name, column in self._columns.items():
            column.restore(state["columns"][name])
        for name, shape in self._shapes.items():
            shape.restore(state["shapes"][name])
        self._values = {name: values for name, values in self._values.items() if name in state["values"]}
        for name, values in self._values.items():
            values.restore(state["values"][name])
        self.classes = dict(state["classes"])

    def _listed_values(self) -> dict[str, list[dict[str, Any]]]:
        """Those of all columns, or of as many as there is room for: columns of few values first."""
        listed = {name: values.entries() for name, values in self._values.items()}
        room, kept = MAX_ALL_VALUES, set[str]()
        for name in sorted(listed, key=lambda name: len(listed[name])):
            room -= len(listed[name])
            if room >= 0:
                kept.add(name)
        return {name: values for name, values in listed.items() if name in kept}


class _Values:
    """How many rows have which value, of a column that has few."""

    def __init__(self) -> None:
        self._rows: dict[Any, int] = {}

    def add(self, column: Array) -> bool:
        """Take in the next rows; False as soon as there are too many values, or one is too long."""
        rows = self._rows
        if len(column) > 4 * _FIRST_ROWS and len(column.slice(0, _FIRST_ROWS).value_counts()) > MAX_VALUES + 1:
            return False
        counts = column.value_counts()
        if len(counts) > MAX_VALUES + 1:  # (null may be one of them)
            return False
        values, counted = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
        for value, number in zip(values, counted, strict=True):
            if value is not None:
                rows[value] = rows.get(value, 0) + number
        return len(rows) <= MAX_VALUES and not any(
            isinstance(value, str) and len(value) > MAX_VALUE_LENGTH for value in values
        )

    def seen(self, data_type: DataType) -> Array:
        """The values that there were, as a column."""
        return arrow().array(list(self._rows), data_type)

    def __len__(self) -> int:
        return len(self._rows)

    def entries(self) -> list[dict[str, Any]]:
        return [{"value": value, "rows": self._rows[value]} for value in sorted(self._rows)]

    def state(self) -> list[tuple[Any, int]]:
        return list(self._rows.items())

    def restore(self, state: Any) -> None:
        self._rows = dict(state)


class _Column:
    """Any column: the count of missing values."""

    def __init__(self) -> None:
        self.nulls = 0

    def add(self, column: Array) -> None:
        self.nulls += column.null_count

    def entries(self) -> dict[str, Any]:
        return {"nulls": self.nulls}

    def state(self) -> dict[str, Any]:
        return {"nulls": self.nulls}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.nulls = state["nulls"]


class _Times(_Column):
    """Dates and time stamps; those with a time zone are shown in UTC."""

    def __init__(self, data_type: DataType) -> None:
        super().__init__()
        pa = arrow()
        aware = pa.types.is_timestamp(data_type) and data_type.tz is not None
        self._type = pa.timestamp(data_type.unit) if aware else data_type
        self._suffix = "Z" if aware else ""
        self._minimum: Any = None
        self._maximum: Any = None
        self._days = {day: _first_and_next(day, self._type) for day in SENTINELS}
        self._sentinels: dict[str, int] | None = dict.fromkeys(SENTINELS, 0)

    def add(self, column: Array) -> None:
        super().add(column)
        compute, column = arrow().compute, column.cast(self._type)
        minimum, maximum = compute.min_max(column).values()
        if minimum.is_valid:
            for day, ends in self._days.items():
                if (
                    self._sentinels is not None
                    and ends
                    and minimum.value < ends[1].value
                    and maximum.value >= ends[0].value
                ):
                    of_day = compute.and_(compute.greater_equal(column, ends[0]), compute.less(column, ends[1]))
                    self._sentinels[day] += compute.sum(of_day).as_py() or 0
            if self._minimum is None or minimum.value < self._minimum.value:
                self._minimum = minimum
            if self._maximum is None or maximum.value > self._maximum.value:
                self._maximum = maximum

    def entries(self) -> dict[str, Any]:
        ends = {"min": self._text(self._minimum), "max": self._text(self._maximum)}
        found = {day: rows for day, rows in (self._sentinels or {}).items() if rows}
        return {**super().entries(), **ends, **({"sentinels": found} if found else {})}

    def state(self) -> dict[str, Any]:
        ends = [None if end is None else end.value for end in (self._minimum, self._maximum)]
        return {**super().state(), "ends": ends, "sentinels": self._sentinels}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        pa = arrow()
        number = pa.int32() if pa.types.is_date32(self._type) else pa.int64()
        ends = [None if end is None else pa.scalar(end, number).cast(self._type) for end in state["ends"]]
        self._minimum, self._maximum = ends
        self._sentinels = state.get("sentinels")  # (an earlier release did not count them)

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        text: str = value.cast(arrow().string()).as_py()
        return text.replace(" ", "T") + self._suffix


def _first_and_next(day: str, data_type: DataType) -> tuple[Any, Any] | None:
    """The first moment of a day and that of the next one; None where the type has no such day."""
    pa = arrow()
    first = pa.scalar(day).cast(pa.date32())
    try:
        return tuple(pa.scalar(first.value + more, pa.int32()).cast(pa.date32()).cast(data_type) for more in (0, 1))
    except pa.ArrowInvalid:
        return None


class _Numbers(_Column):
    """Integers, bools (as 0 and 1), decimals and floats."""

    def __init__(self, data_type: DataType) -> None:
        super().__init__()
        pa = arrow()
        self._floating = pa.types.is_floating(data_type)
        self._cast_to = (
            pa.uint8()
            if pa.types.is_boolean(data_type)
            else pa.float64()
            if pa.types.is_decimal(data_type)
            else pa.float32()
            if pa.types.is_float16(data_type)
            else None
        )
        self._count = 0
        self._not_finite = 0
        self._minimum: float | None = None
        self._maximum: float | None = None
        # Sums are kept a piece: fsum adds them without rounding in between.
        self._sums: list[float] = []
        self._mean = 0.0
        self._squares = 0.0

    def add(self, column: Array) -> None:
        super().add(column)
        compute = arrow().compute
        if self._cast_to is not None:
            column = column.cast(self._cast_to)
        if self._floating:
            finite = compute.is_finite(column)
            count = compute.sum(finite).as_py() or 0
            self._not_finite += len(column) - column.null_count - count
            if count < len(column):
                column = column.filter(finite)  # drops nulls too
        else:
            count = len(column) - column.null_count
        if not count:
            return
        extremes = compute.min_max(column).as_py()
        self._minimum = extremes["min"] if self._minimum is None else min(self._minimum, extremes["min"])
        self._maximum = extremes["max"] if self._maximum is None else max(self._maximum, extremes["max"])
        total = _sum(column, max(abs(extremes["min"]), abs(extremes["max"])) * count)
        self._sums.append(total)
        # Chan, Golub and LeVeque (1979), "Updating formulae and a pairwise algorithm for computing sample variances".
        mean, variance = total / count, compute.variance(column).as_py()
        merged = self._count + count
        delta = mean - self._mean
        self._squares += variance * count + delta * delta * self._count * count / merged
        self._mean += delta * count / merged
        self._count = merged

    def entries(self) -> dict[str, Any]:
        ends = {"min": self._minimum, "max": self._maximum}
        found = {**super().entries(), **ends, "mean": None, "std": None, "sum": None}
        if self._count:
            total = self._total()
            mean = total / self._count
            found["sum"] = total if math.isfinite(total) else None
            std = math.sqrt(self._squares / self._count) if self._squares >= 0 else math.nan
            # Sums and squares of the largest floats are beyond what a float, and JSON, can say.
            found["mean"] = mean if math.isfinite(mean) else None
            found["std"] = std if math.isfinite(std) else None
        return {**found, "not_finite": self._not_finite} if self._floating else found

    def state(self) -> dict[str, Any]:
        total = self._total()
        return {
            **super().state(),
            **{"count": self._count, "not_finite": self._not_finite, "min": self._minimum, "max": self._maximum},
            **{"sums": [total] if math.isfinite(total) else self._sums, "mean": self._mean, "squares": self._squares},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._count, self._not_finite = state["count"], state["not_finite"]
        self._minimum, self._maximum = state["min"], state["max"]
        self._sums, self._mean = list(state["sums"]), state["mean"]
        self._squares = state["squares"]

    def _total(self) -> float:
        if all(isinstance(piece, int) for piece in self._sums):
            return sum(self._sums)
        try:
            return math.fsum(self._sums)
        except (OverflowError, ValueError):
            return math.inf


def _can_name_things(data_type: DataType) -> bool:
    kinds = arrow().types
    return any(
        is_kind(data_type) for is_kind in (kinds.is_integer, kinds.is_boolean, kinds.is_string, kinds.is_large_string)
    )


def _column(data_type: DataType) -> _Column:
    kinds = arrow().types
    if is_number(data_type):
        return _Numbers(data_type)
    if kinds.is_date(data_type) or kinds.is_timestamp(data_type):
        return _Times(data_type)
    return _Column()


def _sum(column: Array, bound: float) -> float:
    """The sum; of integers the exact one, also where 64 bits would overflow (`bound` is an upper limit of it)."""
    pa = arrow()
    compute = pa.compute
    if not pa.types.is_integer(column.type) or bound < 1 << 62:
        return compute.sum(column).as_py()
    high = compute.shift_right(column, pa.scalar(32, column.type))
    low = compute.bit_wise_and(column, pa.scalar((1 << 32) - 1, column.type))
    return (compute.sum(high).as_py() << 32) + compute.sum(low).as_py()
