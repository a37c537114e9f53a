"""Values of Spark in other types, and an error where one does not fit."""

# pyright: basic

from __future__ import annotations

import math

from drivetrain.data.engines.spark.frames import Column, functions, spark_type
from drivetrain.data.transform import types

_LARGEST = {"uint8": 2**8 - 1, "uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}
_HALF = 2.0**32
# (\z is the end; $ is also before a last line break)
_INTEGER = r"^[+-]?[0-9]+\z"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_DECIMAL = rf"^{_NUMBER}\z"
_FLOAT = rf"^({_NUMBER}|[+-]?(?i)(nan|inf|infinity))\z"
_EXPONENT = r"^([+-]?)([0-9]*)\.?([0-9]*)[eE]\+?(-?0*[0-9]{1,4})\z"
_NAN = r"^[+-](?i)nan\z"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?\z"


def casted(value: Column, given: str, wanted: str) -> Column:
    """Values in another type; an error where one does not fit."""
    sql = functions()
    if given == "string" and types.is_integer(wanted):
        value = _checked(value, value.rlike(_INTEGER), wanted, is_text=True)
    elif given == "string" and types.is_decimal(wanted):
        return _text_as_decimal(value, wanted)
    elif given == "string" and types.is_float(wanted):
        value = _checked(value, value.rlike(_FLOAT), wanted, is_text=True)
        value = sql.when(value.rlike(_NAN), "NaN").otherwise(value)
        return _finite(value, value.rlike("(?i)inf"), wanted, is_text=True)
    elif given == "string" and wanted == "date32":
        value = _checked(value, value.rlike(_DAY), wanted, is_text=True)
    elif given == "string" and types.is_timestamp(wanted):
        value = _checked(value, value.rlike(_TIME), wanted, is_text=True)
    elif given == "string" and wanted == "bool":
        value = _checked(value, sql.lower(value).isin("true", "false"), wanted, is_text=True)
    elif types.is_timestamp(given) and wanted == "date32":
        return sql.to_date(as_local(value, given))
    elif types.is_decimal(given) and types.is_decimal(wanted) and types.scale_of(wanted) < types.scale_of(given):
        value = sql.bround(value, types.scale_of(wanted))
    elif (given, wanted) == ("float64", "float32"):
        return _finite(value, sql.abs(value) == math.inf, wanted)
    if types.loses_digits(given, wanted):
        return exactly(value, given, wanted)
    if wanted in _LARGEST and types.is_float(given):
        beyond = float(_LARGEST[wanted] + 1)
        value = value.cast("double")
        value = _whole(_checked(value, (value > -1) & (value < beyond), wanted))
    elif wanted in _LARGEST:
        wide = value.cast("decimal(38, 0)")
        largest = sql.lit(str(_LARGEST[wanted])).cast("decimal(38, 0)")
        value = _checked(wide, (wide >= 0) & (wide <= largest), wanted)
    return value.cast(spark_type(wanted))


def _text_as_decimal(value: Column, wanted: str) -> Column:
    """Halves go to the even digit, where a cast of Spark's rounds them up: one behind an even digit counts as less."""
    scale = types.scale_of(wanted)
    plain = _without_exponent(value)
    fits = plain.rlike(rf"^[+-]?0*[0-9]{{0,{types.digits_of(wanted) - scale}}}(\.[0-9]*)?\z") & value.rlike(_DECIMAL)
    before = rf"\.[0-9]{{{scale - 1}}}[02468]" if scale else r"(^|[+-]|[02468])\."
    rounded = functions().regexp_replace(plain, rf"(?<={before})50*\z", "4").cast(wanted)
    return when(_checked(value, fits, wanted, is_text=True).isNotNull(), rounded)


def _without_exponent(value: Column) -> Column:
    """Texts of numbers: 12.5e-1 as 01.25. Beyond 9,999 places they stay as they are."""
    sql = functions()
    sign, whole, rest, places = (sql.regexp_extract(value, _EXPONENT, group) for group in (1, 2, 3, 4))
    moved = places.cast("int")
    digits = sql.concat(_zeros(-moved), whole, rest, _zeros(moved))
    point = sql.length(whole) + sql.greatest(moved, sql.lit(0))
    made = sql.concat(
        sign, digits.substr(sql.lit(1), point), sql.lit("."), digits.substr(point + 1, sql.length(digits))
    )
    return sql.when(value.rlike(_EXPONENT), made).otherwise(value)


def _zeros(count: Column) -> Column:
    """None where the count is negative."""
    return functions().call_function("repeat", functions().lit("0"), count)


def _whole(value: Column) -> Column:
    """A double in (-1, 2**64) without its fraction, as a decimal. A cast of Spark's rounds, and goes by 17 digits."""
    sql = functions()
    positive = sql.when(value < 0, 0.0).otherwise(value)
    low, high = positive % _HALF, sql.floor(positive / _HALF)
    return high.cast("decimal(10, 0)") * sql.lit(str(int(_HALF))).cast("decimal(10, 0)") + low.cast("bigint")


def exactly(value: Column, given: str, wanted: str) -> Column:
    """Integers as floats; an error where that is another number."""
    fits = rest_of(value, given, wanted) == 0
    return _checked(value, fits, f"{wanted}, without loss").cast(spark_type(wanted))


def rest_of(value: Column, given: str, wanted: str) -> Column:
    """The difference between an integer and its float."""
    sql, made = functions(), value.cast(spark_type(wanted))
    bits = 24 if wanted == "float32" else 53
    # Integers from half way below it on become a float that is beyond them, which no cast gives back.
    beyond, wide = 1 << (64 if given == "uint64" else 63), "decimal(20, 0)"
    half_way = beyond - (beyond >> bits + 1)
    again = _whole(made.cast("double")) if given == "uint64" else made.cast("bigint")
    more = value.cast(wide) - sql.lit(str(beyond)).cast(wide)
    rest = sql.when(value < sql.lit(str(half_way)).cast(wide), (value - again).cast("bigint"))
    return rest.otherwise(more.cast("bigint"))


def _finite(value: Column, named: Column, wanted: str, is_text: bool = False) -> Column:
    """Texts and floats as floats; an error where a number is beyond the largest, which is infinity otherwise."""
    made = value.cast(spark_type(wanted))
    return _checked(value, named | (functions().abs(made) != math.inf), wanted, is_text).cast(spark_type(wanted))


def _checked(value: Column, fits: Column, wanted: str, is_text: bool = False) -> Column:
    sql = functions()
    quote = sql.lit('"' if is_text else "")
    shown = sql.concat(quote, value.cast("string"), quote, sql.lit(f" is not of the type {wanted}"))
    return sql.when(value.isNull() | fits, value).otherwise(sql.raise_error(shown))


def when(condition: Column, value: Column) -> Column:
    return functions().when(condition, value)


def as_local(value: Column, kind: str) -> Column:
    """A time stamp as the clock of its zone shows it, in a session of UTC."""
    zone = types.zone_of(kind)
    return functions().from_utc_timestamp(value, zone) if zone else value
