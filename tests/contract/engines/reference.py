"""Plain Python's values of the row operations: exact integers and fractions, mpmath, zoneinfo; no engine is asked.

`value(expression, row, kinds)` gives the value in one row. It raises UnfitError where the transformation must end with
an error. All arguments are calculated, unless `lazily`: then only those that the result depends on, so that an error in
a branch that is not chosen counts for the one and not for the other.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import zoneinfo
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath

from drivetrain.data.transform import types
from drivetrain.data.transform.expressions import Call, Column, Expression, Literal
from drivetrain.data.transform.verbs import result_type
from tests.contract.engines.reference_casts import UnfitError, cast, exactly, local, single

INT64 = range(-(1 << 63), 1 << 63)
UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
# White_Space of Unicode.
BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def value(expression: Expression, row: Mapping[str, Any], kinds: Mapping[str, str], lazily: bool = False) -> Any:
    """The value of a row operation in one row; time stamps are datetimes in UTC, or without a zone."""
    if isinstance(expression, Column):
        return row[expression.name]
    kind = result_type(expression, kinds, "")
    if isinstance(expression, Literal):
        return expression.value
    assert isinstance(expression, Call)
    name = expression.operation.name
    given = [result_type(each, kinds, "") for each in expression.arguments]
    parts = [lambda each=each: value(each, row, kinds, lazily) for each in expression.arguments]
    if lazily and name in _LAZY:
        return _LAZY[name](parts, given, kind)
    values = [part() for part in parts]
    if name in _OF_NULLS:
        return _OF_NULLS[name](values, given, kind)
    if any(each is None for each in values):
        return None
    return _OPERATIONS[name](values, given, kind)


def in_type(value: Any, given: str, kind: str, exact: bool = True) -> Any:
    """A chosen value in the common type."""
    if value is None or given == kind:
        return value
    if types.is_float(kind):
        if exact and isinstance(value, int) and not isinstance(value, bool):
            return exactly(value, kind)
        return float(value)
    return value


def nearest(value: Any) -> float:
    """The float that is nearest to a number of mpmath."""
    if not mpmath.isfinite(value):
        return float(value)
    sign, mantissa, exponent, _ = value._mpf_
    exact = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    try:
        found = exact.numerator / exact.denominator
    except OverflowError:
        found = math.inf
    return -found if sign else found


def _precisely(function: Callable[..., Any], *values: float) -> float:
    with mpmath.workprec(400):
        return nearest(function(*(mpmath.mpf(each) for each in values)))


def power(a: float, b: float) -> float:
    """IEEE 754's special values, which are Python's; the nearest float for others."""
    try:
        special = math.pow(a, b)
    except OverflowError:
        special = math.inf
    except ValueError:  # of 0 by a negative one, of a negative one by a fraction
        if a != 0:
            return math.nan
        odd = b == int(b) and int(b) % 2 == 1
        return math.copysign(math.inf, a) if odd else math.inf
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return special
    size = b * math.log2(abs(a))
    found = math.inf if size > 1100 else 0.0 if size < -1200 else _precisely(mpmath.power, abs(a), b)
    return -found if a < 0 and b % 2 == 1 else found


def integer(value: int) -> int:
    if value not in INT64:
        raise UnfitError(f"{value} is beyond int64")
    return value


def _number(whole: Callable[..., int], of_floats: Callable[..., float]) -> Any:
    def calculate(values: list[Any], given: list[str], kind: str) -> Any:
        if types.is_float(kind):
            return of_floats(*map(float, values))
        return integer(whole(*values))

    return calculate


def divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _exp(a: float) -> float:
    if not math.isfinite(a):
        return math.exp(a)
    return math.inf if a > 710 else 0.0 if a < -750 else _precisely(mpmath.exp, a)


def _log(a: float) -> float:
    if a <= 0 or not math.isfinite(a):
        return -math.inf if a == 0 else a if a > 0 else math.nan
    return _precisely(mpmath.log, a)


def _circular(function: Any) -> Callable[[float], float]:
    def calculate(a: float) -> float:
        if not math.isfinite(a):
            return math.nan
        return math.copysign(0.0, a) if a == 0 and function is mpmath.sin else _precisely(function, a)

    return calculate


def ordered(a: Any, b: Any) -> int:
    """-1, 0 or 1; NaN is equal to NaN and above all numbers."""
    first, second = ((isinstance(each, float) and math.isnan(each)) for each in (a, b))
    if first or second:
        return first - second
    return (a > b) - (a < b)


def _compared(rule: Callable[[int], bool]) -> Any:
    """Without a loss: Python compares integers with floats exactly."""
    return lambda values, given, kind: rule(ordered(*values))


def equal(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else ordered(a, b) == 0


def _between(values: list[Any], given: list[str], kind: str) -> bool | None:
    if None in values:
        return None
    return ordered(values[0], values[1]) >= 0 and ordered(values[0], values[2]) <= 0


def _is_in(values: list[Any], given: list[str], kind: str) -> bool | None:
    return _or(*(equal(values[0], each) for each in values[1:]))


def _or(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def _and(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def _first(values: list[Any], given: list[str], kind: str) -> Any:
    made = [in_type(each, its, kind) for each, its in zip(values, given, strict=True)]
    return next((each for each in made if each is not None), None)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _chosen(parts: list[Callable[[], Any]], given: list[str], kind: str) -> Any:
    place = 1 if parts[0]() else 2
    return in_type(parts[place](), given[place], kind)


def _coalesced(parts: list[Callable[[], Any]], given: list[str], kind: str) -> Any:
    made = (in_type(part(), its, kind) for part, its in zip(parts, given, strict=True))
    return next((each for each in made if each is not None), None)


def _short(stop: bool, whole: Callable[..., Any]) -> Any:
    def calculate(parts: list[Callable[[], Any]], given: list[str], kind: str) -> Any:
        first = parts[0]()
        return stop if first is stop else whole(first, parts[1]())

    return calculate


def _fill_nan(values: list[Any], given: list[str], kind: str) -> Any:
    made = [in_type(each, its, kind) for each, its in zip(values, given, strict=True)]
    return made[1] if is_nan(values[0]) else made[0]


def _if_else(values: list[Any], given: list[str], kind: str) -> Any:
    made = [in_type(each, its, kind) for each, its in zip(values[1:], given[1:], strict=True)]
    return made[0] if values[0] else made[1]


# Whose arguments are calculated where they are needed.
_LAZY: Mapping[str, Any] = {
    "between": lambda parts, given, kind: (
        None if None in (bounds := [parts[1](), parts[2]()]) else _between([parts[0](), *bounds], given, kind)
    ),
    "if_else": _chosen,
    "coalesce": _coalesced,
    "fill_null": _coalesced,
    "fill_nan": lambda parts, given, kind: (
        in_type(parts[1](), given[1], kind) if is_nan(first := parts[0]()) else in_type(first, given[0], kind)
    ),
    "and": _short(False, _and),
    "or": _short(True, _or),
}
_OF_NULLS: Mapping[str, Any] = {
    "is_in": _is_in,
    "and": lambda values, given, kind: _and(*values),
    "or": lambda values, given, kind: _or(*values),
    "is_null": lambda values, given, kind: values[0] is None,
    "fill_null": _first,
    "coalesce": _first,
    "fill_nan": _fill_nan,
    "null_if": lambda values, given, kind: None if equal(*values) else values[0],
    "if_else": _if_else,
}


def _cast(values: list[Any], given: list[str], kind: str) -> Any:
    return cast(values[0], given[0], kind)


def begun(value: dt.datetime, unit: str) -> dt.datetime:
    """The beginning of a unit, as the clock shows it."""
    if unit in ("hour", "minute", "second"):
        length = {"hour": 3600, "minute": 60, "second": 1}[unit]
        return value - dt.timedelta(microseconds=micros(value) % (length * 10**6))
    day = value.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        return day - dt.timedelta(days=day.weekday())
    month = {"year": 1, "quarter": value.month - (value.month - 1) % 3}.get(unit, value.month)
    return day if unit == "day" else day.replace(day=1, month=month)


def _truncated(values: list[Any], given: list[str], kind: str) -> dt.datetime:
    """A day or longer begins with its first instant. An hour or shorter begins where the clock last showed its
    beginning; where the clock skipped that, it begins with the change."""
    instant, unit = values
    shown = local(instant, kind)
    try:
        wanted = begun(shown, unit)
    except OverflowError:
        raise UnfitError(str(instant)) from None
    zone = types.zone_of(kind)
    if zone is None:
        return wanted
    clock = zoneinfo.ZoneInfo(zone)
    folds = [wanted.replace(tzinfo=clock, fold=fold).astimezone(UTC) for fold in (0, 1)]
    exist = [each for each in folds if each.astimezone(clock).replace(tzinfo=None, fold=0) == wanted]
    if exist:
        earlier = [each for each in exist if each <= instant]
        return min(exist) if unit in ("day", "week", "month", "quarter", "year") else max(earlier)
    low, high = min(folds), max(folds)  # the change lies between them
    while high - low > dt.timedelta(microseconds=1):
        middle = low + (high - low) // 2
        low, high = (middle, high) if middle.astimezone(clock).replace(tzinfo=None) < wanted else (low, middle)
    return high


def micros(value: dt.datetime) -> int:
    return (value.replace(tzinfo=value.tzinfo or UTC) - EPOCH) // dt.timedelta(microseconds=1)


def _later(values: list[Any], given: list[str], kind: str) -> dt.datetime:
    try:
        return values[0] + dt.timedelta(seconds=values[1])
    except OverflowError:
        raise UnfitError(str(values)) from None


def _hash(values: list[Any], given: list[str], kind: str) -> int:
    text = f"{values[-1]}\0{values[0]}".encode()
    found = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return found if len(values) == 2 else found % values[1]


def _part(name: str) -> Any:
    return lambda values, given, kind: getattr(local(values[0], given[0]), name)


def _float(function: Callable[..., float]) -> Any:
    return lambda values, given, kind: function(*map(float, values))


def _whole(function: Callable[[float], int]) -> Any:
    def calculate(values: list[Any], given: list[str], kind: str) -> float:
        found = values[0]
        return math.copysign(float(function(found)), found) if math.isfinite(found) else found

    return calculate


def _rounded(values: list[Any], given: list[str], kind: str) -> float:
    found = round(values[0], values[1]) if math.isfinite(values[0]) else values[0]
    return single(found) if kind == "float32" else found


def _sign(a: Any) -> Any:
    return a if a == 0 or a != a else math.copysign(1, a) if isinstance(a, float) else 1 if a > 0 else -1


def _clip(a: Any, low: Any, high: Any) -> Any:
    return a if a != a else low if a < low else high if a > high else a


def _slice(values: list[Any], given: list[str], kind: str) -> str:
    return values[0][values[1] : values[1] + values[2]]


_OPERATIONS: Mapping[str, Any] = {
    "add": _number(lambda a, b: a + b, lambda a, b: a + b),
    "subtract": _number(lambda a, b: a - b, lambda a, b: a - b),
    "multiply": _number(lambda a, b: a * b, lambda a, b: a * b),
    "divide": _float(divided),
    "floor_divide": lambda v, given, kind: None if v[1] == 0 else integer(v[0] // v[1]),
    "modulo": lambda v, given, kind: None if v[1] == 0 else v[0] % v[1],
    "negate": _number(lambda a: -a, lambda a: -a),
    "absolute": _number(lambda a: abs(a), lambda a: abs(a)),
    "power": _float(power),
    "square_root": _float(lambda a: math.nan if a < 0 else math.sqrt(a)),
    "exp": _float(_exp),
    "log": _float(_log),
    "sin": _float(_circular(mpmath.sin)),
    "cos": _float(_circular(mpmath.cos)),
    "nearest_float": lambda values, given, kind: float(values[0]),
    "floor": _whole(math.floor),
    "ceiling": _whole(math.ceil),
    "round": _rounded,
    "sign": _number(_sign, _sign),
    "clip": _number(_clip, _clip),
    "equal": lambda values, given, kind: equal(*values),
    "not_equal": lambda values, given, kind: not equal(*values),
    "less": _compared(lambda found: found < 0),
    "less_equal": _compared(lambda found: found <= 0),
    "greater": _compared(lambda found: found > 0),
    "greater_equal": _compared(lambda found: found >= 0),
    "between": _between,
    "xor": lambda values, given, kind: values[0] != values[1],
    "not": lambda values, given, kind: not values[0],
    "is_nan": lambda values, given, kind: is_nan(values[0]),
    "cast": _cast,
    "lower": lambda values, given, kind: values[0].lower(),
    "upper": lambda values, given, kind: values[0].upper(),
    "strip": lambda values, given, kind: values[0].strip(BLANKS),
    "length": lambda values, given, kind: len(values[0]),
    "concat": lambda values, given, kind: "".join(values),
    "contains": lambda values, given, kind: values[1] in values[0],
    "starts_with": lambda values, given, kind: values[0].startswith(values[1]),
    "ends_with": lambda values, given, kind: values[0].endswith(values[1]),
    "replace": lambda values, given, kind: values[0].replace(values[1], values[2]),
    "slice": _slice,
    **{name: _part(name) for name in ("year", "month", "day", "hour", "minute", "second")},
    "weekday": lambda values, given, kind: local(values[0], given[0]).isoweekday(),
    "day_of_year": lambda values, given, kind: local(values[0], given[0]).timetuple().tm_yday,
    "truncate": _truncated,
    "to_date": lambda values, given, kind: cast(values[0], given[0], "date32"),
    "to_zone": lambda values, given, kind: values[0].replace(tzinfo=UTC) if given[0] == "timestamp[us]" else values[0],
    "add_seconds": _later,
    "seconds_between": lambda values, given, kind: float(micros(values[0]) - micros(values[1])) / 1e6,
    "epoch_seconds": lambda values, given, kind: float(micros(values[0])) / 1e6,
    "key_hash": _hash,
    "bucket": _hash,
}
