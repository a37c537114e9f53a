"""Frames of Spark: data with names of our own for its columns, and hidden columns by which rows are in order."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivetrain.data.arrow import Batch, arrow
from drivetrain.data.engines import Table
from drivetrain.data.engines.spark.session import Exchange
from drivetrain.data.transform import types
from drivetrain.data.transform.verbs import Columns

# pyspark.sql.DataFrame, Column.
Data = Any
Column = Any

_UNSIGNED = {"uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20, 0)"}
_PLAIN = {
    **{"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float32": "float"},
    **{"float64": "double", "bool": "boolean", "date32": "date", "null": "void"},
    **_UNSIGNED,
}
_COUNT = iter(range(1 << 62))


@dataclass(frozen=True)
class Frame:
    """`names` has of each column the name that it has in `data`; `order` are hidden columns of `data`, ascending with
    null last."""

    data: Data
    names: Mapping[str, str]
    columns: Columns
    order: tuple[str, ...]

    def column(self, name: str) -> Column:
        return self.data[self.names[name]]


def functions() -> Any:
    return importlib.import_module("pyspark.sql.functions")


def fresh(prefix: str = "c") -> str:
    """A name that no column has: Spark's own rules for names (case, dots) are not met with it."""
    return f"{prefix}{next(_COUNT)}"


def spark_type(name: str) -> str:
    """The type of Spark that holds the values of a type of ours."""
    if types.is_timestamp(name):
        return "timestamp" if types.zone_of(name) else "timestamp_ntz"
    return _PLAIN.get(name, name)


def in_order(order: Sequence[str], data: Data) -> list[Column]:
    return [data[name].asc_nulls_last() for name in order]


def written(exchange: Exchange, table: Table, place: str) -> Frame:
    """The rows of a table, which are written into a folder for Spark to read."""
    return of_batches(exchange, table.batches(), table.columns, place)


def of_batches(exchange: Exchange, batches: Iterator[Batch], columns: Columns, place: str) -> Frame:
    pa, folder = arrow(), exchange.folder / place
    folder.mkdir(parents=True)
    names = {name: fresh() for name in columns}
    row = fresh("row")
    given = types.arrow_schema(columns)
    stored = pa.schema([*((names[name], _stored(kind)) for name, kind in columns.items()), (row, pa.int64())])
    count = 0
    with pa.parquet.ParquetWriter(folder / "rows.parquet", stored) as file:
        for batch in batches:
            rows = pa.array(range(count, count + batch.num_rows), pa.int64())
            values = [
                column.cast(kind)
                for column, kind in zip(
                    pa.Table.from_batches([batch]).cast(given).columns, stored.types[:-1], strict=True
                )
            ]
            file.write_table(pa.Table.from_arrays([*values, rows], schema=stored))
            count += batch.num_rows
    return Frame(exchange.read(place), names, dict(columns), (row,))


def read(exchange: Exchange, frame: Frame, place: str) -> Iterator[Batch]:
    """The rows in their order, with the columns and types that they are declared to have."""
    pa, data = arrow(), frame.data
    schema = types.arrow_schema(frame.columns)
    if frame.order:  # (one row of an aggregation without groups has none)
        data = data.orderBy(*in_order(frame.order, data))
    ordered = data.select(*(frame.column(name) for name in frame.columns))
    for path in exchange.write(ordered, place):
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                table = pa.Table.from_batches([batch])
                columns = [_as_declared(column, kind) for column, kind in zip(table.columns, schema.types, strict=True)]
                yield from pa.Table.from_arrays(columns, schema=schema).combine_chunks().to_batches()


def _stored(name: str) -> Any:
    pa = arrow()
    unsigned = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "uint64": pa.decimal128(20, 0)}
    if types.zone_of(name):
        return pa.timestamp("us", tz="UTC")
    return unsigned.get(name) or types.arrow_type(name)


def _as_declared(column: Any, kind: Any) -> Any:
    pa = arrow()
    if pa.types.is_uint64(kind):  # Arrow casts no decimal beyond int64
        return pa.chunked_array(
            [pa.array([None if value is None else int(value) for value in column.to_pylist()], kind)]
        )
    if pa.types.is_timestamp(kind) and kind.tz is None and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
    return column.cast(kind)
