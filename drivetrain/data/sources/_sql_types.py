"""Database types that have the same values in Arrow; others are refused, with the cast to write."""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, DataType, Schema, arrow

# In whole days and in microseconds since 1970: the years 1 to 9999. A driver makes other numbers of infinity.
_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_PER_MICROSECOND = {"s": 1e-6, "ms": 1e-3, "us": 1, "ns": 1e3}


def check_types(where: str, schema: Schema) -> None:
    """
    Args:
        where: the address of the database.
        schema: what the driver gives.

    Raises:
        InputError: two columns have one name, Parquet lacks a column's type, or the driver returns other values for it
            than the database shows (money as cents, uuid and inet as bytes).
    """
    names = schema.names
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: two columns of the query are called {repeated!r}. Rename one: select x as y.")
    for field in schema:
        if kind := _refused(field):
            cast = "numeric" if kind == "money" else "text"
            raise InputError(
                f"{where}: column {field.name!r} is of the type {kind}, whose values are not read as they are. Cast it "
                f"in the query: cast({field.name} as {cast}) as {field.name}."
            )


def check_dates(where: str, batch: Batch) -> None:
    """
    Raises:
        InputError: a date or time stamp is not in the years 1 to 9999.
    """
    pa = arrow()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if (bounds := _bounds(field.type)) is None:
            continue
        integers = pa.int32() if pa.types.is_date32(field.type) else pa.int64()
        ends = pa.compute.min_max(column.cast(integers)).as_py()
        if ends["min"] is not None and not bounds[0] <= ends["min"] <= ends["max"] <= bounds[1]:
            raise InputError(
                f"{where}: column {field.name!r} has a date before the year 1 or after 9999, such as infinity. Make it "
                f"null in the query: nullif({field.name}, 'infinity'), or leave the row out."
            )


def _bounds(data_type: DataType) -> tuple[float, float] | None:
    pa = arrow()
    if pa.types.is_date32(data_type):
        return _DAYS
    if not pa.types.is_timestamp(data_type):
        return None
    least, greatest = (end * _PER_MICROSECOND[data_type.unit] for end in _MICROSECONDS)
    return least, greatest


def _refused(field: Any) -> str:
    """The database's name of a type that is refused; empty for others."""
    pa = arrow()
    metadata: dict[bytes, bytes] = field.metadata or {}
    named = metadata.get(b"POSTGRESQL:type", b"").decode()
    kind = field.type
    if pa.types.is_list(kind):
        kind = kind.value_type
    if named in ("money", "_money") or kind == pa.month_day_nano_interval():
        return named or "interval"
    if not isinstance(kind, pa.BaseExtensionType):
        return ""
    # Text keeps its value: numeric, json.
    return "" if pa.types.is_string(kind.storage_type) else named or kind.extension_name
