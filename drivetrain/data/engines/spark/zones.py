"""The beginnings of days and hours by the clock of a zone; the session is in UTC."""

# pyright: basic

from __future__ import annotations

from typing import Any

from drivetrain.data.engines.spark.casting import as_local
from drivetrain.data.engines.spark.frames import Column, functions
from drivetrain.data.transform import types

_DAY = 86_400_000_000
# Halvings of two days to a microsecond.
_HALVINGS = 38


def micros(value: Column) -> Column:
    return functions().unix_micros(value.cast("timestamp"))


def truncated(parts: Any, kinds: Any, constants: Any) -> Column:
    """As on Polars: a day or longer begins with its first instant. An hour or shorter begins where the clock last
    showed its beginning. Where the clock skipped that, the unit begins with the change."""
    sql, (value, kind, unit) = functions(), (parts[0], kinds[0], constants[0])
    local = as_local(value, kind).cast("timestamp")
    begun, zone = micros(sql.date_trunc(unit, local)), types.zone_of(kind)
    if zone is None:
        return sql.timestamp_micros(begun)
    if unit in ("hour", "minute", "second"):
        offset = micros(local) - micros(value)
        same = begun - offset
        before = _offset(same, zone)
        made = sql.when(before == offset, same).otherwise(_begun(begun, before, offset, zone))
    else:
        made = _begun(begun, _offset(begun - _DAY, zone), _offset(begun + _DAY, zone), zone)
    return sql.timestamp_micros(made)


def _begun(local: Column, before: Column, after: Column, zone: str) -> Column:
    """The first instant at which a clock showed `local`, with its offsets before and after; the change, where it
    skipped it."""
    sql = functions()
    first, second = local - before, local - after

    def halved(bounds: Column, _: Column) -> Column:
        low, high = bounds["low"], bounds["high"]
        middle = low + sql.call_function("div", high - low, sql.lit(2))
        is_after = _offset(middle, zone) == after
        return sql.struct(
            sql.when(is_after, low).otherwise(middle).alias("low"),
            sql.when(is_after, middle).otherwise(high).alias("high"),
        )

    bounds = sql.struct(sql.least(first, second).alias("low"), sql.greatest(first, second).alias("high"))
    change = sql.aggregate(sql.sequence(sql.lit(1), sql.lit(_HALVINGS)), bounds, halved)["high"]
    return (
        sql.when(_offset(first, zone) == before, first).when(_offset(second, zone) == after, second).otherwise(change)
    )


def _offset(instant: Column, zone: str) -> Column:
    """Microseconds that a clock is ahead of UTC."""
    sql = functions()
    return micros(sql.from_utc_timestamp(sql.timestamp_micros(instant), zone)) - instant
