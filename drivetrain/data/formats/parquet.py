"""Parquet files. Rows are numbered from 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivetrain.base.errors import InputError, first_line
from drivetrain.data.arrow import Batch, Schema, arrow, plain_type
from drivetrain.data.convert import BadValueError, converted
from drivetrain.data.source import CellError, Source

# Rows read at a time, fewer where they are wide.
BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20


def infer_parquet(source: Source) -> Schema:
    """The columns and their types, from the footer."""
    pa = arrow()
    with _opened(source) as file:
        names: list[str] = file.schema_arrow.names
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{source.name}: two columns are called {repeated!r}. Rename one.")
        return pa.schema([(field.name, plain_type(field.type)) for field in file.schema_arrow])


def parquet_batches(source: Source, schema: Schema) -> Iterator[Batch]:
    """The file's rows in the schema's columns and types.

    Raises:
        CellError: a value that is not of its column's type.
        InputError: the file is damaged.
    """
    pa = arrow()
    first = 0
    with _opened(source) as file:
        rows = max(file.metadata.num_rows, 1)
        size = sum(file.metadata.row_group(index).total_byte_size for index in range(file.metadata.num_row_groups))
        batch_rows = max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))
        try:
            for batch in file.iter_batches(batch_size=batch_rows, columns=schema.names):
                if not batch.num_rows:
                    continue
                try:
                    yield converted(batch, schema, text=False)
                except BadValueError as error:
                    raise CellError(f"{locate_parquet(source, first + error.row)}, {error}.") from None
                first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _damaged(source, error) from error


def locate_parquet(source: Source, index: int) -> str:
    return f"{source.name}, row {index + 1}"


def _opened(source: Source) -> Any:
    pa = arrow()
    try:
        return pa.parquet.ParquetFile(str(source.path), pre_buffer=False, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(source, error) from error


def _damaged(source: Source, error: Exception) -> InputError:
    return InputError(f"{source.name} cannot be read as Parquet: {first_line(error)}. Is it damaged, or cut short?")
