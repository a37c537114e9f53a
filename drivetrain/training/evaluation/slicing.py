"""The values of columns by which an evaluation is sliced: those that the data's manifest lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.metric_states.slices import SliceColumn
from drivetrain.training.reader import Reader


def slice_columns(reader: Reader, names: Sequence[str]) -> list[SliceColumn]:
    """Columns with their values, in the order of the names.

    Raises:
        InputError: a column without listed values.
    """
    listed = {
        name: entry["values"]
        for name, entry in reader.statistics.items()
        if isinstance(entry, Mapping) and entry.get("values")
    }
    unlisted = next((name for name in names if name not in listed), None)
    if unlisted is not None:
        raise InputError(
            f"slices: {reader.folder} lists no values of column {unlisted!r}. A column to slice by has whole numbers, "
            f"bools or text, and at most 256 values; data that an earlier version prepared has to be prepared again. "
            f"Columns with values: {_shown(sorted(listed))}."
        )
    return [SliceColumn(name, _values(listed[name])) for name in names]


def _values(entries: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    return tuple(entry["value"] for entry in entries)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(names[:20]) or "none") + more
