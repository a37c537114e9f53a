"""Parquet files. Rows are numbered from 1.

Spark's and Hive's time stamps of 96 bits (INT96) are read in microseconds, as Spark reads them: nanoseconds reach from
1677 to 2262 only, and Arrow lets a year 9999, the usual open end, wrap without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivetrain.data.arrow import Array, Batch, Schema, arrow, numpy
from drivetrain.data.convert import BadValueError, check_text, converted
from drivetrain.data.source import CellError, Source, damaged, locate_row, named_once

# Rows read at a time, fewer where they are wide.
BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20


def infer_parquet(source: Source) -> Schema:
    """The columns and their types, from the footer."""
    with _opened(source) as file:
        return named_once(source, file.schema_arrow)


def parquet_batches(source: Source, schema: Schema) -> Iterator[Batch]:
    """The file's rows in the schema's columns and types.

    Raises:
        CellError: a value that is not of its column's type.
        InputError: the file is damaged.
    """
    pa = arrow()
    first = 0
    unit = _int96_unit(source, schema)
    with _opened(source, unit) as file:
        rows = max(file.metadata.num_rows, 1)
        size = sum(file.metadata.row_group(index).total_byte_size for index in range(file.metadata.num_row_groups))
        batch_rows = max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))
        try:
            for batch in file.iter_batches(batch_size=batch_rows, columns=schema.names):
                if not batch.num_rows:
                    continue
                try:
                    check_text(batch)
                    yield converted(batch, schema, text=False)
                except BadValueError as error:
                    raise CellError(f"{locate_row(source, first + error.row)}, {error}.") from None
                first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise damaged(source, error, "Parquet") from error


def _int96_unit(source: Source, schema: Schema) -> str:
    """The unit in which the file's INT96 time stamps are read: that of nanoseconds only for a column of that type.

    Raises:
        CellError: a time stamp that has no place in the unit. A second reading, in seconds, then says something else.
    """
    pa, unit = arrow(), "us"
    with _opened(source) as file:
        leaves = [file.schema.column(place) for place in range(len(file.schema))]
        paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
        names = [name for name in schema.names if any(path == name or path.startswith(f"{name}.") for path in paths)]
        if not names:
            return unit
        if any("timestamp[ns" in str(schema.field(name).type) for name in names):
            unit = "ns"
    first = 0
    with _opened(source, unit) as file, _opened(source, "s") as coarse:
        try:
            for group in range(file.num_row_groups):
                fine, seconds = (each.read_row_group(group, columns=names) for each in (file, coarse))
                for name in names:
                    both = fine[name].combine_chunks(), seconds[name].combine_chunks()
                    if not _agree(*both, unit):
                        rows = (
                            row for row in range(len(fine)) if not _agree(both[0][row:][:1], both[1][row:][:1], unit)
                        )
                        raise CellError(
                            f"{locate_row(source, first + next(rows))}, column {name!r}: a time stamp lies beyond "
                            f"what 64 bits of {unit} hold. Correct it, or write the column as text."
                        )
                first += len(fine)
        except (pa.ArrowException, OSError) as error:
            raise damaged(source, error, "Parquet") from error
    return unit


def _agree(fine: Array, seconds: Array, unit: str) -> bool:
    """Compare two readings by their seconds, also within lists and structs."""
    pa, np = arrow(), numpy()
    if pa.types.is_timestamp(seconds.type):
        given, wanted = (np.asarray(each.cast(pa.int64()).fill_null(0)) for each in (fine, seconds))
        return bool((given // {"us": 10**6, "ns": 10**9}[unit] == wanted).all())
    if pa.types.is_struct(seconds.type):
        return all(_agree(*parts, unit) for parts in zip(fine.flatten(), seconds.flatten(), strict=True))
    if pa.types.is_list(seconds.type):
        return _agree(fine.flatten(), seconds.flatten(), unit)
    if pa.types.is_map(seconds.type):
        return _agree(fine.keys, seconds.keys, unit) and _agree(fine.items, seconds.items, unit)
    return True


def _opened(source: Source, int96: str = "us") -> Any:
    pa = arrow()
    try:
        return pa.parquet.ParquetFile(
            str(source.path),
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit=int96,
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns are bytes, too
        raise damaged(source, error, "Parquet") from error
