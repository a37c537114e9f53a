"""The operations on Spark: one line each, and wrappers where Spark means something else.

What the operations mean stands in drivetrain/data/transform/operations.py. In ANSI mode what does not fit is an error.
"""

# A lambda of the tables below has no place for the types of its arguments, which are pyspark.sql.Column.
# pyright: basic

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from drivetrain.data.engines import _nearest
from drivetrain.data.engines._comparisons import Compared, comparisons
from drivetrain.data.engines.spark.casting import as_local, casted, exactly, rest_of, when
from drivetrain.data.engines.spark.frames import Column, Frame, functions, spark_type
from drivetrain.data.engines.spark.zones import micros, truncated
from drivetrain.data.transform import types
from drivetrain.data.transform.expressions import Call, Expression, Literal
from drivetrain.data.transform.expressions import Column as Named
from drivetrain.data.transform.verbs import result_type

_CHOICES = {"fill_null", "fill_nan", "coalesce"}


def translated(expression: Expression, frame: Frame, over: Any = None) -> Column:
    """The expression for Spark, cast to the type that it is declared to have; an aggregate `over` a window."""
    sql = functions()
    if isinstance(expression, Named):
        return frame.column(expression.name)
    kind = result_type(expression, frame.columns, "expression")
    if isinstance(expression, Literal):
        return sql.lit(expression.value).cast(spark_type(kind))
    assert isinstance(expression, Call)
    name = expression.operation.name
    kinds = [result_type(argument, frame.columns, name) for argument in expression.arguments]
    parts = [translated(argument, frame) for argument in expression.arguments]
    constants = [
        argument.value
        for place, argument in enumerate(expression.arguments)
        if isinstance(argument, Literal) and expression.operation.is_constant(place)
    ]
    if name == "cast":
        return casted(parts[0], kinds[0], kind)
    if name == "to_zone":
        return parts[0].cast("timestamp")
    if name in _TIMES:
        return _TIMES[name](parts, kinds, constants).cast(spark_type(kind))
    if name in _COMPARISONS:
        shared = None if any(types.is_decimal(each) for each in kinds) else types.common_type(kinds)
        compared = (_compared(*each, shared) for each in zip(parts, kinds, strict=True))
        return _COMPARISONS[name](*compared).cast(spark_type(kind))
    if name in _CHOICES and not types.is_decimal(kind):
        parts = [_chosen(*each, kind) for each in zip(parts, kinds, strict=True)]
    elif name == "if_else" and types.is_float(kind):
        parts[1:] = [_chosen(*each, kind) for each in zip(parts[1:], kinds[1:], strict=True)]
    elif name in _OF_CONSTANTS:
        return _OF_CONSTANTS[name](parts[0], *constants).cast(spark_type(kind))
    elif (
        expression.operation.place == "row"
        and all(types.is_kind(each, "number") for each in kinds)
        and (types.is_float(kind) or kind == "int64")
    ):
        parts = [part.cast(spark_type(kind)) for part in parts]
    if expression.operation.place != "row":
        return _aggregated(name, parts, kinds, constants, over, kind).cast(spark_type(kind))
    integers = kind == "int64" and all(types.is_integer(each) or each == "null" for each in kinds)
    found = _EXACT[name](*parts) if integers and name in _EXACT else _plain()[name](*parts)
    return found.cast(spark_type(kind))


def _aggregated(name: str, parts: Any, kinds: Any, constants: Any, over: Any, kind: str) -> Column:
    """An aggregate; where it gives floats, zeros have no sign."""
    sql = functions()

    def made(name: str, *given: Any) -> Column:
        return _over(_AGGREGATES[name](*given), over)

    if kinds and types.is_integer(kinds[0]) and name in ("sum", "cumulative_sum", "mean"):
        total = made("sum", parts[0].cast("decimal(38, 0)"))
        return total if name != "mean" else when(total.isNotNull(), total.cast("double") / made("count", parts[0]))
    if name == "quantile":
        return _without_sign(made(name, _without_sign(parts[0].cast("double")), constants[0]))
    if name in ("variance", "standard_deviation"):
        # Infinite where squares of finite numbers are beyond the largest float: they are scaled, so that no mean is.
        value = parts[0].cast("double")
        scaled = made("variance", value * 2.0**-600) * 2.0**600 * 2.0**600
        found = sql.when(made("max", sql.abs(value)) > 2.0**500, scaled).otherwise(made("variance", value))
        return sql.sqrt(found) if name == "standard_deviation" else found
    if not kinds or not types.is_float(kinds[0]):
        found = sql.size(made(name, *parts)) if name == "distinct" else made(name, *parts)
    else:
        is_number = ~sql.isnan(parts[0])
        if name == "distinct":  # to a set of Spark's every NaN is another value, and so is -0.0
            has_nan = sql.coalesce(made("max", sql.isnan(parts[0]).cast("int")), sql.lit(0))
            return sql.size(made(name, when(is_number, _without_sign(parts[0])))) + has_nan
        if name in ("min", "max"):
            found = sql.coalesce(made(name, when(is_number, parts[0])), made(name, parts[0]))
        else:
            found = made(name, *parts)
    return _without_sign(found) if types.is_float(kind) else found


def _without_sign(value: Column) -> Column:
    return functions().when(value == 0, 0.0).otherwise(value)


def _compared(value: Column, given: str, shared: str | None) -> Compared:
    made = value if shared is None else value.cast(spark_type(shared))
    lossy = shared is not None and types.loses_digits(given, shared)
    return Compared(value, made, rest_of(value, given, shared) if shared and lossy else None)


_COMPARISONS = comparisons(
    when=when,
    is_given=lambda value: value.isNotNull(),
    holds=lambda condition: functions().coalesce(condition, functions().lit(False)),
    zero=lambda: functions().lit(0).cast("bigint"),
)


def _chosen(value: Column, given: str, shared: str) -> Column:
    """A value in the type of what is chosen from; an error where it would be another number."""
    return exactly(value, given, shared) if types.loses_digits(given, shared) else value.cast(spark_type(shared))


def hashed(key: Column, salt: str) -> Column:
    """The 64 bits of drivetrain.data.split as decimal(20, 0); null of null. In Python, row by row."""

    def digest(text: str | None) -> Any:
        # Workers get this function by its code, and need nothing of ours.
        import decimal
        import hashlib

        if text is None:
            return None
        found = hashlib.blake2b(prefix + text.encode(), digest_size=8).digest()
        return decimal.Decimal(int.from_bytes(found, "little"))

    prefix = salt.encode() + b"\0"
    digest.__module__ = "__main__"  # so that it is sent by value
    return functions().udf(digest, "decimal(20, 0)")(key.cast("string"))


def _nearest_of(name: str, result: str = "double") -> Callable[..., Column]:
    """A function of `_nearest`, in Python, row by row; null of null."""
    importlib.import_module("pyspark.cloudpickle").register_pickle_by_value(_nearest)
    function = getattr(_nearest, name)

    def of_row(*values: Any) -> Any:
        return None if None in values else function(*values)

    of_row.__module__ = "__main__"  # so that it is sent by value
    return functions().udf(of_row, result)


def _rounded(value: Column, digits: int) -> Column:
    """Halves of the exact value to the even digit, where Spark rounds its shortest text."""
    if digits == 0:
        return _signed(functions().bround(value, 0), value)
    return _nearest_of("rounded")(value.cast("double"), functions().lit(digits))


def _over(value: Column, window: Any) -> Column:
    return value if window is None else value.over(window)


def _part(name: str) -> Callable[[Any, Any, Any], Column]:
    return lambda parts, kinds, constants: getattr(functions(), name)(as_local(parts[0], kinds[0]))


# Of time stamps, which need to know their zone.
_TIMES: Mapping[str, Callable[[Any, Any, Any], Column]] = {
    **{name: _part(name) for name in ("year", "month", "hour", "minute", "second")},
    "day": _part("dayofmonth"),
    "day_of_year": _part("dayofyear"),
    "weekday": lambda parts, kinds, constants: functions().weekday(as_local(parts[0], kinds[0])) + 1,
    "to_date": lambda parts, kinds, constants: functions().to_date(as_local(parts[0], kinds[0])),
    "truncate": truncated,
    "add_seconds": lambda parts, kinds, constants: functions().timestamp_micros(
        micros(parts[0]) + parts[1].cast("bigint") * 1_000_000
    ),
    "seconds_between": lambda parts, kinds, constants: (micros(parts[0]) - micros(parts[1])).cast("double") / 1e6,
    "epoch_seconds": lambda parts, kinds, constants: micros(parts[0]).cast("double") / 1e6,
}


def _divided(a: Column, b: Column) -> Column:
    """As IEEE 754 has it; Spark raises an error for a zero."""
    sql = functions()
    infinity = sql.when(b.cast("string") == "-0.0", sql.lit(-math.inf)).otherwise(sql.lit(math.inf))
    return sql.when(b == 0, a * infinity).otherwise(a / sql.when(b != 0, b))


def _whole_number(value: Column, name: str) -> Column:
    """floor and ceil give integers on Spark, and 0 for NaN."""
    sql = functions()
    small = sql.abs(value) < float(1 << 52)
    return sql.when(small, _signed(getattr(sql, name)(sql.when(small, value)).cast("double"), value)).otherwise(value)


def _signed(found: Column, value: Column) -> Column:
    """A zero that was rounded to, with the sign of the value."""
    return functions().when(found == 0, value * 0.0).otherwise(found)


def _floor_divided(a: Column, b: Column) -> Column:
    sql = functions()
    divisor = sql.when(b != 0, b)
    rest = a % divisor
    down = sql.when((rest != 0) & ((rest < 0) != (divisor < 0)), 1).otherwise(0)
    return sql.call_function("div", a, divisor) - down


def _modulo(a: Column, b: Column) -> Column:
    sql = functions()
    divisor = sql.when(b != 0, b)
    rest = a % divisor
    return sql.when((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor).otherwise(rest)


def _clipped(a: Column, low: Column, high: Column) -> Column:
    sql = functions()
    return sql.when(a < low, low).when((a > high) & ~sql.isnan(a.cast("double")), high).otherwise(a)


# Of integers, in 64 bits; an error beyond.
_EXACT: Mapping[str, Callable[..., Column]] = {
    "floor_divide": _floor_divided,
    "modulo": _modulo,
    "sign": lambda a: functions().when(a > 0, 1).when(a < 0, -1).otherwise(a),
}
# Of a value and constants, which are given as they are.
_OF_CONSTANTS: Mapping[str, Callable[..., Column]] = {
    "round": _rounded,
    "contains": lambda a, text: a.contains(text),
    "starts_with": lambda a, text: a.startswith(text),
    "ends_with": lambda a, text: a.endswith(text),
    "replace": lambda a, old, new: functions().replace(a, functions().lit(old), functions().lit(new)),
    "slice": lambda a, start, count: functions().substring(a, start + 1, count),
    "key_hash": hashed,
    "bucket": lambda a, count, salt: hashed(a, salt) % functions().lit(count).cast("decimal(20, 0)"),
}
_AGGREGATES: Mapping[str, Callable[..., Column]] = {
    "sum": lambda a: functions().sum(a),
    "mean": lambda a: functions().avg(a),
    "variance": lambda a: functions().var_samp(a),
    "min": lambda a: functions().min(a),
    "max": lambda a: functions().max(a),
    "count": lambda a: functions().count(a),
    "rows": lambda: functions().count(functions().lit(1)),
    "distinct": lambda a: functions().collect_set(a),
    "quantile": lambda a, fraction: functions().percentile(a, fraction),
    "any": lambda a: functions().bool_or(a),
    "all": lambda a: functions().bool_and(a),
    "cumulative_sum": lambda a: functions().sum(a),
}


@cache
def _plain() -> Mapping[str, Callable[..., Column]]:
    sql = functions()
    return {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": _divided,
        "negate": lambda a: -a,
        "absolute": sql.abs,
        "power": _nearest_of("power"),
        "square_root": sql.sqrt,
        "exp": _nearest_of("exp"),
        "log": _nearest_of("log"),
        "sin": _nearest_of("sin"),
        "cos": _nearest_of("cos"),
        "nearest_float": lambda a: a,
        "floor": lambda a: _whole_number(a, "floor"),
        "ceiling": lambda a: _whole_number(a, "ceil"),
        "sign": sql.signum,
        "clip": _clipped,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a != b,
        "not": lambda a: ~a,
        "is_null": lambda a: a.isNull(),
        "is_nan": lambda a: sql.when(a.isNotNull(), sql.isnan(a)),
        "fill_null": sql.coalesce,
        "fill_nan": lambda a, b: sql.when(sql.isnan(a), b).otherwise(a),
        "coalesce": sql.coalesce,
        "if_else": lambda a, b, c: sql.when(a, b).otherwise(c),
        "lower": sql.lower,
        "upper": sql.upper,
        "strip": lambda a: sql.regexp_replace(a, r"(?U)^\s+|\s+$", ""),
        "length": sql.length,
        "concat": lambda *parts: sql.concat(*parts),
    }
