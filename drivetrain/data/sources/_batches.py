"""Batches of other libraries with the types of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivetrain.base.errors import InputError, first_line
from drivetrain.data.arrow import Array, Batch, DataType, Schema, arrow

_DAMAGED = " Is it damaged, or written to by hand?"


def plain_batches(batches: Any, schema: Schema, where: str, *, advice: str = _DAMAGED) -> Iterator[Batch]:
    """
    Raises:
        InputError: they cannot be read; with the advice.
    """
    pa = arrow()
    try:
        for batch in batches:
            if batch.num_rows:
                columns = [_cast(batch.column(field.name), field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{where} cannot be read: {first_line(error)}.{advice}") from error


def _cast(column: Array, data_type: DataType) -> Array:
    """Cast a column. The type of a column without a value says nothing, and not every cast exists."""
    return arrow().nulls(len(column), data_type) if column.null_count == len(column) else column.cast(data_type)
