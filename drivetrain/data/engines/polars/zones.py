"""Local times of a zone, and the beginnings of its days and hours.

Polars' tables of zones end with the year 2100; later, Python's zoneinfo goes on by the zone's last rule.
"""

# pyright: basic

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy
from drivetrain.data.engines.polars.frames import polars
from drivetrain.data.transform import types

Expr = Any
_LATE = 4_102_444_800_000_000  # 2100-01-01 in microseconds
_MOST = 8_175_000_000_000_000_000
_QUARTER = 900_000_000
_DAY = 86_400_000_000
# The calendar repeats after 400 years, weekdays and all.
_CYCLE = 146_097 * _DAY
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def as_local(value: Expr, kind: str) -> Expr:
    """A time stamp as the clock of its type's zone shows it, without a zone; others as they are."""
    if not types.is_timestamp(kind):
        return value
    pl, zone = polars(), types.zone_of(kind)
    return value.map_batches(lambda series: _shown(series, zone), return_dtype=pl.Datetime("us"), is_elementwise=True)


def truncated(value: Expr, kind: str, unit: str) -> Expr:
    """The beginning of a unit. A day or longer begins with its first instant. An hour or shorter begins where the clock
    last showed its beginning. Where the clock skipped that, the unit begins with the change."""
    pl, zone = polars(), types.zone_of(kind)
    if zone is None:
        return as_local(value, kind).dt.truncate(unit)
    is_short = unit in ("1h", "1m", "1s")

    def of_series(series: Any) -> Any:
        np = numpy()
        given = series.drop_nulls()
        instants = given.cast(pl.Int64).to_numpy()
        local = _shown(given, zone)
        begun = local.dt.truncate(unit).cast(pl.Int64).to_numpy()
        if is_short:
            offsets = local.cast(pl.Int64).to_numpy() - instants
            made = begun - offsets
            odd = np.flatnonzero(_offsets(made, zone) != offsets)
            made[odd] = _begun(begun[odd], _offsets(made[odd], zone), offsets[odd], zone)
        else:
            before, after = _offsets(begun - _DAY, zone), _offsets(begun + _DAY, zone)
            made = _begun(begun, before, after, zone)
        found = pl.Series(made, dtype=pl.Int64).cast(series.dtype)
        if not series.null_count():
            return found
        places = (series.is_not_null().cum_sum() - 1).cast(pl.UInt32)
        return found.gather(pl.select(pl.when(series.is_not_null()).then(places)).to_series())

    return value.map_batches(of_series, return_dtype=pl.Datetime("us", zone), is_elementwise=True)


def _begun(local: Any, before: Any, after: Any, zone: str) -> Any:
    """The first instants at which a clock showed `local`, with its offsets before and after; the change, where it
    skipped it."""
    np = numpy()
    first, second = local - before, local - after
    is_first = _offsets(first, zone) == before
    made = np.where(is_first, first, second)
    skipped = np.flatnonzero(~is_first & (_offsets(second, zone) != after))
    low, high = np.minimum(first, second)[skipped], np.maximum(first, second)[skipped]
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        is_after = _offsets(middle, zone) == after[skipped]
        low, high = np.where(is_after, low, middle), np.where(is_after, middle, high)
    made[skipped] = high
    return made


def _offsets(instants: Any, zone: str) -> Any:
    """Microseconds that a clock is ahead of UTC."""
    pl = polars()
    series = pl.Series(instants, dtype=pl.Int64).cast(pl.Datetime("us", zone))
    return _shown(series, zone).cast(pl.Int64).to_numpy() - instants


def _shown(series: Any, zone: str | None) -> Any:
    """
    Raises:
        InputError: a time stamp is beyond the calendar of Polars, which gives null, or ends a plan without its rows.
    """
    pl = polars()
    most = max(
        (abs(each) for each in (series.to_physical().min(), series.to_physical().max()) if each is not None), default=0
    )
    if most > _MOST:
        raise InputError(
            f"a time stamp is {most:,} microseconds from 1970. Polars' calendar ends with the year 261000: filter such "
            "rows out before, or use engine=spark."
        )
    if zone is None:
        return series
    local = series.dt.replace_time_zone(None)
    instants = series.cast(pl.Int64)
    late = (instants >= _LATE).arg_true()
    if not len(late):
        return local
    quarters = instants.gather(late) // _QUARTER
    offsets = {quarter: _offset(quarter * _QUARTER, zone) for quarter in quarters.unique().to_list()}
    made = instants.gather(late) + quarters.replace_strict(offsets, return_dtype=pl.Int64)
    return local.cast(pl.Int64).scatter(late, made).cast(pl.Datetime("us"))


def _offset(instant: int, zone: str) -> int:
    """By zoneinfo, which has no year 10000."""
    cycles = max(0, (instant - _LATE) // _CYCLE)
    at = _EPOCH + dt.timedelta(microseconds=instant - cycles * _CYCLE)
    offset = at.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return offset // dt.timedelta(microseconds=1)
