"""The operations on Polars: one line each, and wrappers where Polars means something else.

Integers are calculated in 128 bits and cast back strictly, so that what does not fit is an error. What the operations
mean stands in drivetrain/data/transform/operations.py.
"""

# A lambda of the tables below has no place for the types of its arguments, which are polars.Expr.
# pyright: basic

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from drivetrain.data.arrow import arrow
from drivetrain.data.engines._comparisons import Compared, comparisons
from drivetrain.data.engines.polars.frames import data_type, polars
from drivetrain.data.engines.polars.nearest import nearest, rounded
from drivetrain.data.engines.polars.refusals import NOT_IN_FORM, TOO_SMALL
from drivetrain.data.engines.polars.zones import as_local, truncated
from drivetrain.data.split import key_hashes
from drivetrain.data.transform import types
from drivetrain.data.transform.expressions import Call, Column, Expression, Literal
from drivetrain.data.transform.verbs import Columns, result_type

# polars.Expr
Expr = Any
_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]+)?$"
_UNITS = {"year": "1y", "quarter": "1q", "month": "1mo", "week": "1w", "day": "1d", "hour": "1h", "minute": "1m"}
# Operations whose arguments are chosen from: they are cast to one type before.
_CHOICES = {"fill_null", "fill_nan", "coalesce"}
# What the clock of the column's zone shows.
_OF_CLOCK = {"year", "month", "day", "weekday", "day_of_year", "hour", "minute", "second", "to_date"}


def translated(expression: Expression, columns: Columns) -> Expr:
    """The expression for Polars, cast to the type that it is declared to have."""
    pl = polars()
    if isinstance(expression, Column):
        return pl.col(expression.name)
    kind = result_type(expression, columns, "expression")
    if isinstance(expression, Literal):
        return pl.lit(expression.value, data_type(kind))
    assert isinstance(expression, Call)
    name = expression.operation.name
    kinds = [result_type(argument, columns, name) for argument in expression.arguments]
    parts = [translated(argument, columns) for argument in expression.arguments]
    constants = [
        argument.value
        for place, argument in enumerate(expression.arguments)
        if isinstance(argument, Literal) and expression.operation.is_constant(place)
    ]
    if name == "cast":
        return casted(parts[0], kinds[0], kind)
    if name == "to_zone":
        aware = parts[0] if types.zone_of(kinds[0]) else parts[0].dt.replace_time_zone("UTC")
        return aware.dt.convert_time_zone(types.zone_of(kind))
    if name == "truncate":
        return truncated(parts[0], kind, _UNITS.get(str(constants[0]), "1s"))
    if name in _OF_CLOCK:
        parts[0] = as_local(parts[0], kinds[0])
    if name in _COMPARISONS:
        shared = None if any(types.is_decimal(each) for each in kinds) else types.common_type(kinds)
        compared = (_compared(*each, shared) for each in zip(parts, kinds, strict=True))
        return _COMPARISONS[name](*compared).cast(data_type(kind))
    if name in _CHOICES and not types.is_decimal(kind):
        parts = [_chosen(*each, kind) for each in zip(parts, kinds, strict=True)]
    if name == "if_else" and types.is_float(kind):
        parts[1:] = [_chosen(*each, kind) for each in zip(parts[1:], kinds[1:], strict=True)]
    if name in EXACT and types.is_kind(kinds[0], "integer") and kind == "int64":
        return EXACT[name](*(part.cast(pl.Int128) for part in parts)).cast(pl.Int64, strict=True)
    if name in _OF_CONSTANTS:
        return _OF_CONSTANTS[name](parts[0], *constants).cast(data_type(kind))
    wide = parts[0].cast(pl.Int128) if name == "mean" and types.is_integer(kinds[0]) else None
    if types.is_float(kind) and kinds and all(types.is_kind(each, "number") for each in kinds):
        parts = [part.cast(data_type(kind)) for part in parts]
    if name == "add" and types.is_float(kind):
        return _added(parts, [isinstance(each, Literal) and each.value == 0 for each in expression.arguments])
    divisor = expression.arguments[-1] if name == "divide" else None
    if isinstance(divisor, Literal) and divisor.value == divisor.value and kinds[1] != "null":  # (not of NaN)
        return _by_constant(*parts)
    if wide is not None:
        return _when(parts[0].count() > 0, wide.sum().cast(pl.Float64) / parts[0].count())
    made = _plain()[name](*parts)
    if expression.operation.place != "row" and types.is_float(kind):
        made = without_sign(made)
    return made.cast(data_type(kind))


def _compared(value: Expr, given: str, shared: str | None) -> Compared:
    pl = polars()
    made = value if shared is None else value.cast(data_type(shared))
    if shared is None or not types.loses_digits(given, shared):
        return Compared(value, made)
    return Compared(value, made, (value.cast(pl.Int128) - made.cast(pl.Int128)).cast(pl.Int64))


_COMPARISONS = comparisons(
    when=lambda condition, value: _when(condition, value),
    is_given=lambda value: value.is_not_null(),
    holds=lambda condition: condition.fill_null(False),
    zero=lambda: polars().lit(0, polars().Int64),
)


def _chosen(value: Expr, given: str, shared: str) -> Expr:
    """A value in the type of what is chosen from; an error where it would be another number."""
    return _exactly(value, given, shared) if types.loses_digits(given, shared) else value.cast(data_type(shared))


def casted(value: Expr, given: str, wanted: str) -> Expr:
    """Values in another type; an error where one does not fit."""
    pl = polars()
    if given == "string" and wanted == "date32":
        return _in_form(value, _DAY).str.to_date("%Y-%m-%d", strict=True)
    if given == "string" and types.is_timestamp(wanted):
        iso = _in_form(value, _TIME).str.replace(" ", "T", literal=True)
        return iso.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=True)
    if given == "string" and wanted == "bool":
        return value.str.to_lowercase().replace_strict(
            {"true": True, "false": False, None: None}, return_dtype=pl.Boolean
        )
    if given == "date32" and wanted == "string":
        return value.dt.to_string("%Y-%m-%d")
    if types.is_timestamp(given) and wanted == "date32":
        return as_local(value, given).dt.date()
    if types.loses_digits(given, wanted):
        return _exactly(value, given, wanted)
    if types.is_float(wanted) and given in ("string", "float64") and given != wanted:
        return _finite(value, wanted)
    return value.cast(data_type(wanted), strict=True)


def _in_form(value: Expr, form: str) -> Expr:
    """Texts of a form; others get a character with which no cast takes them (one of 2024-1-2 does)."""
    pl = polars()
    return _when(value.str.contains(form), value, pl.concat_str(value, pl.lit(NOT_IN_FORM)))


def _exactly(value: Expr, given: str, wanted: str) -> Expr:
    """Integers as floats; an error where that is another number. Back again, a float beyond the integers is null."""
    pl = polars()
    made = value.cast(data_type(wanted))
    is_same = (made.cast(data_type(given), strict=False) == value).fill_null(False)
    changed = _when(~is_same, value).cast(pl.Int128).cast(getattr(pl, TOO_SMALL[wanted]), strict=True)
    return _when(changed.is_null(), made)


def _by_constant(value: Expr, constant: Expr) -> Expr:
    """As IEEE 754 has it. Polars multiplies with 1 / constant, by which 3 / 10 is 0.30000000000000004."""
    return value / value.clip(constant, constant)


def _added(parts: list[Expr], is_zero: list[bool]) -> Expr:
    """As IEEE 754 has it: -0.0 + 0.0 is 0.0. Polars leaves a constant zero out."""
    a, b = parts
    return _when(a == -b, 0.0, a + b) if any(is_zero) else a + b


def _finite(value: Expr, wanted: str) -> Expr:
    """Texts and floats as floats; an error where a number is beyond the largest, which is infinity otherwise."""
    pl = polars()
    made = value.cast(data_type(wanted), strict=True)
    infinite = _when(made.is_infinite(), value).cast(pl.String)
    beyond = pl.concat_str(_when(~infinite.str.contains("(?i)inf"), infinite), pl.lit(NOT_IN_FORM))
    return _when(beyond.cast(data_type(wanted), strict=True).is_null(), made)


def hashed(key: Expr, salt: str) -> Expr:
    """The 64 bits of drivetrain.data.split, of a column of integers or text; null of null."""
    pl = polars()

    def hashes(series: Any) -> Any:
        pa = arrow()
        keys = series.to_arrow()
        found = key_hashes(keys.drop_null(), salt)
        if keys.null_count:
            places = pa.compute.cumulative_sum(keys.is_valid().cast(pa.int64()))
            chosen = pa.compute.if_else(keys.is_valid(), pa.compute.subtract(places, 1), pa.scalar(None, pa.int64()))
            found = found.take(chosen)
        return pl.Series(found, dtype=pl.UInt64)

    return key.map_batches(hashes, return_dtype=pl.UInt64, is_elementwise=True)


def _bucket(key: Expr, count: int, salt: str) -> Expr:
    return hashed(key, salt) % polars().lit(count, polars().UInt64)


def _when(condition: Expr, value: Expr, other: Expr = None) -> Expr:
    return polars().when(condition).then(value).otherwise(other)


def _micros(value: Expr) -> Expr:
    return value.cast(polars().Int64).cast(polars().Int128)


def without_sign(value: Expr) -> Expr:
    """Zeros are 0.0, never -0.0. (Polars leaves + 0.0 out.)"""
    return _when(value == 0, 0.0, value)


def _quantile(value: Expr, fraction: float) -> Expr:
    """Between two values a and b, with the part p of the way: (1 - p) * a + p * b, in float64."""
    pl = polars()
    ordered = without_sign(value.cast(pl.Float64)).drop_nulls().sort()
    place = (ordered.len().cast(pl.Float64) - 1) * float(fraction)
    low, high = (ordered.get(each.cast(pl.Int64), null_on_oob=True) for each in (place.floor(), place.ceil()))
    part = place - place.floor()
    between = (place.floor() + 1 - place) * low + part * high
    return without_sign(_when((part == 0) | (low == high), low, between))


def _variance(value: Expr) -> Expr:
    """Infinite where squares of finite numbers are beyond the largest float: they are scaled, so that no mean is."""
    scale = _when(value.abs().max() > 2.0**500, 2.0**-600, 1.0)
    return (value * scale).var(ddof=1) / scale / scale


def _running(value: Expr) -> Expr:
    """The sum so far, also where the value is null; null before the first."""
    return _when(value.is_not_null().cum_sum() > 0, value.fill_null(0).cum_sum())


# Of integers, which come in 128 bits.
EXACT: Mapping[str, Callable[..., Expr]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": lambda a, b: _when(b != 0, a.floordiv(_when(b != 0, b))),
    "modulo": lambda a, b: _when(b != 0, a % _when(b != 0, b)),
    "negate": lambda a: 0 - a,
    "absolute": lambda a: a.abs(),
    "sign": lambda a: a.sign(),
    "clip": lambda a, low, high: a.clip(low, high),
    "sum": lambda a: _when(a.count() > 0, a.sum()),
    "cumulative_sum": _running,
}
# Of a value and constants, which are given as they are.
_OF_CONSTANTS: Mapping[str, Callable[..., Expr]] = {
    "round": rounded,
    "contains": lambda a, text: a.str.contains(text, literal=True),
    "starts_with": lambda a, text: a.str.starts_with(text),
    "ends_with": lambda a, text: a.str.ends_with(text),
    "replace": lambda a, old, new: a.str.replace_all(old, new, literal=True),
    "slice": lambda a, start, count: a.str.slice(start, count),
    "key_hash": hashed,
    "bucket": _bucket,
    "quantile": _quantile,
    "lag": lambda a, count: a.shift(count),
    "lead": lambda a, count: a.shift(-count),
}


@cache
def _plain() -> Mapping[str, Callable[..., Expr]]:
    """Operations on columns, which come in one type where the operation gives a float."""
    pl = polars()
    return {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "negate": operator.neg,
        "absolute": lambda a: a.abs(),
        "power": nearest("power"),
        "square_root": lambda a: a.sqrt(),
        "exp": nearest("exp"),
        "log": nearest("log"),
        "sin": nearest("sin"),
        "cos": nearest("cos"),
        "nearest_float": lambda a: a,
        "floor": lambda a: a.floor(),
        "ceiling": lambda a: a.ceil(),
        "sign": lambda a: a.sign(),
        "clip": lambda a, low, high: a.clip(low, high),
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
        "not": operator.invert,
        "is_null": lambda a: a.is_null(),
        "is_nan": lambda a: a.is_nan(),
        "fill_null": lambda a, b: pl.coalesce(a, b),
        "fill_nan": lambda a, b: _when(a.is_nan(), b, a),
        "coalesce": pl.coalesce,
        "if_else": lambda a, b, c: _when(a, b, c),
        "lower": lambda a: a.str.to_lowercase(),
        "upper": lambda a: a.str.to_uppercase(),
        "strip": lambda a: a.str.strip_chars(),
        "length": lambda a: a.str.len_chars(),
        "concat": lambda *parts: pl.concat_str(parts, ignore_nulls=False),
        "year": lambda a: a.dt.year(),
        "month": lambda a: a.dt.month(),
        "day": lambda a: a.dt.day(),
        "weekday": lambda a: a.dt.weekday(),
        "day_of_year": lambda a: a.dt.ordinal_day(),
        "hour": lambda a: a.dt.hour(),
        "minute": lambda a: a.dt.minute(),
        "second": lambda a: a.dt.second(),
        "to_date": lambda a: a.dt.date(),
        "add_seconds": lambda a, seconds: (_micros(a) + seconds.cast(pl.Int128) * 1_000_000).cast(
            pl.Int64, strict=True
        ),
        "seconds_between": lambda a, b: _by_constant((_micros(a) - _micros(b)).cast(pl.Float64), pl.lit(1e6)),
        "epoch_seconds": lambda a: _by_constant(a.dt.epoch("us").cast(pl.Float64), pl.lit(1e6)),
        "sum": lambda a: _when(a.count() > 0, a.sum()),
        "mean": lambda a: a.mean(),
        "variance": _variance,
        "standard_deviation": lambda a: _variance(a).sqrt(),
        "min": lambda a: a.min(),
        "max": lambda a: a.max(),
        "count": lambda a: a.count(),
        "rows": pl.len,
        "distinct": lambda a: a.drop_nulls().n_unique(),
        "any": lambda a: _when(a.count() > 0, a.any()),
        "all": lambda a: _when(a.count() > 0, a.all()),
        "cumulative_sum": _running,
    }
