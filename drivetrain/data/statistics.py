"""Statistics of columns, gathered piece by piece; the entries are described in manifest.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, DataType, Schema, arrow
from drivetrain.data.association import LabelMoments, NullsTogether
from drivetrain.data.columns import column_statistics
from drivetrain.data.convert import typed
from drivetrain.data.shapes import Shape, has_shape
from drivetrain.data.sketches import STATE_VERSION, Distinct

# A label with more values than this is a quantity, or a key.
MAX_CLASSES = 100_000
# Columns with at most so many values are listed by value: what an evaluation can be sliced by.
MAX_VALUES = 256
# A longer text is no name of anything; and a manifest of a small data set must not hold its documents.
MAX_VALUE_LENGTH = 256
# Of all columns together: a table of thousands of columns must not have a manifest larger than itself.
MAX_ALL_VALUES = 10_000
# Rows that are looked at before all of a piece: a column of many values mostly shows them here.
_FIRST_ROWS = 1024


class TableStatistics:
    """Statistics of all columns of one data set; the values of the key are not counted."""

    def __init__(self, schema: Schema, label: str | None, *, key: str | None = None) -> None:
        pa = arrow()
        self.schema, self.key, self.label = schema, key, label
        self.columns = {field.name: column_statistics(field.type) for field in schema}
        self._values = {field.name: _Values() for field in schema if field.name != key and _can_name_things(field.type)}
        self.shapes = {field.name: Shape(field.type) for field in schema if field.name != key and has_shape(field.type)}
        self.nulls = NullsTogether(len(schema))
        self.label_moments = LabelMoments(schema, label) if label is not None else None
        self._counts_classes = label is not None and not pa.types.is_floating(schema.field(label).type)
        self.classes: dict[Any, int] = {}

    @property
    def rows(self) -> int:
        return self.nulls.rows

    def add(self, table: Batch) -> None:
        """Take in the next rows.

        Raises:
            InputError: more than MAX_CLASSES classes.
        """
        for name, column in self.columns.items():
            column.add(table.column(name))
        for name, values in list(self._values.items()):
            if not values.add(table.column(name)):
                self._no_values(name, values)
        for name, shape in self.shapes.items():
            shape.add(table.column(name), distinct=name not in self._values)
        if self._counts_classes:
            for count in table.column(self.label).value_counts():
                value, rows = count["values"].as_py(), count["counts"].as_py()
                self.classes[value] = self.classes.get(value, 0) + rows
            self._check_classes()
        self.nulls.add(table)
        if self.label_moments and table.num_rows:
            self.label_moments.add(table)

    def merge(self, later: TableStatistics) -> None:
        """Take in the statistics of other rows of the same columns; the bounds of docs/data.md stay.

        Raises:
            InputError: more than MAX_CLASSES classes.
        """
        for name, column in self.columns.items():
            column.merge(later.columns[name])
        for name, shape in self.shapes.items():
            shape.merge(later.shapes[name])
        for name in {**self._values, **later._values}:
            mine, its = self._values.get(name), later._values.get(name)
            if mine is None or its is None or not mine.merge(its):
                for values in filter(None, (mine, its)):
                    self._no_values(name, values)
        for value, rows in later.classes.items():
            self.classes[value] = self.classes.get(value, 0) + rows
        self._check_classes()
        self.nulls.merge(later.nulls)
        if self.label_moments and later.label_moments:
            self.label_moments.merge(later.label_moments)

    def _no_values(self, name: str, values: _Values) -> None:
        """List a column's values no more; its shape, which counts them from now on, gets those there were."""
        self._values.pop(name, None)
        if name in self.shapes:
            self.shapes[name].count_distinct(values.seen(self.schema.field(name).type))

    def _check_classes(self) -> None:
        if len(self.classes) > MAX_CLASSES:
            raise InputError(
                f"label: column {self.label!r} has more than {MAX_CLASSES:,} values, each of them a class. "
                f"For a quantity give it a float type: {typed(self.label or '', 'float64')}."
            )

    def entries(self) -> dict[str, Mapping[str, Any]]:
        """The manifest's `statistics`."""
        found: dict[str, Mapping[str, Any]] = {name: column.entries() for name, column in self.columns.items()}
        for name, shape in self.shapes.items():
            values = self._values.get(name)
            found[name] = {
                **found[name],
                **shape.entries(),
                **({"distinct": len(values)} if values is not None else {}),
            }
        for name, values in self.listed_values().items():
            found[name] = {**found[name], "values": values}
        if self.label is not None and self._counts_classes:
            classes = [{"value": value, "rows": self.classes[value]} for value in sorted(self.classes)]
            found[self.label] = {**found[self.label], "distinct": len(classes), "classes": classes}
        return found

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `restore`: all that was gathered, so that more rows can be added later."""
        return {
            "version": STATE_VERSION,
            "columns": {name: column.state() for name, column in self.columns.items()},
            "shapes": {name: shape.state() for name, shape in self.shapes.items()},
            "values": {name: values.state() for name, values in self._values.items()},
            "classes": list(self.classes.items()),
            "together": self.nulls.state(),
            "label": self.label_moments.state() if self.label_moments else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what an earlier run had gathered of the same columns."""
        for name, column in self.columns.items():
            column.restore(state["columns"][name])
        for name, shape in self.shapes.items():
            shape.restore(state["shapes"][name])
        self._values = {name: values for name, values in self._values.items() if name in state["values"]}
        for name, values in self._values.items():
            values.restore(state["values"][name])
        self.classes = dict(state["classes"])
        self.nulls.restore(state["together"])
        if self.label_moments:
            self.label_moments.restore(state["label"])

    def different(self, name: str, count: int) -> tuple[Any, int]:
        """The `count` smallest hashes of a column's values, as by `Distinct.smallest`, and how many values differ."""
        found = self.shapes[name].different
        if name in self._values:
            found = Distinct()
            found.add(self._values[name].seen(self.schema.field(name).type))
        return found.smallest(count), found.estimate

    def listed_values(self) -> dict[str, list[dict[str, Any]]]:
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

    def merge(self, later: _Values) -> bool:
        """Take in those of other rows; False if they are too many together, and then all are in this one."""
        for value, rows in later._rows.items():
            self._rows[value] = self._rows.get(value, 0) + rows
        return len(self._rows) <= MAX_VALUES

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


def _can_name_things(data_type: DataType) -> bool:
    kinds = arrow().types
    return any(
        is_kind(data_type) for is_kind in (kinds.is_integer, kinds.is_boolean, kinds.is_string, kinds.is_large_string)
    )
