"""Plain Python's casts: values in another type, or UnfitError."""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from drivetrain.data.transform import types


class UnfitError(Exception):
    """A value does not fit."""


def exactly(value: int, kind: str) -> float:
    made = single(float(value)) if kind == "float32" else float(value)
    if math.isinf(made) or int(made) != value:
        raise UnfitError(f"{value} as {kind}")
    return made


def single(value: float) -> float:
    """The nearest float32, infinite beyond the largest."""
    if not math.isfinite(value) or value == 0:
        return value
    exact, sign = Fraction(abs(value)), math.copysign(1, value)
    unit = Fraction(2) ** max(math.frexp(value)[1] - 24, -149)
    rounded = round(exact / unit) * unit
    return sign * (math.inf if rounded >= Fraction(2) ** 128 else float(rounded))


def cast(value: Any, given: str, kind: str) -> Any:
    if given == kind:
        return value
    if types.is_integer(kind):
        return _as_integer(value, kind)
    if types.is_float(kind):
        return _as_float(value, given, kind)
    if types.is_decimal(kind):
        return _as_decimal(value, kind)
    if kind == "string":
        return str(value)
    if kind == "binary":
        return value.encode()
    if kind == "bool":
        if value.lower() not in ("true", "false"):
            raise UnfitError(value)
        return value.lower() == "true"
    if kind == "date32":
        return _day(value) if isinstance(value, str) else local(value, given).date()
    if isinstance(value, str):
        return _time(value)
    return dt.datetime(value.year, value.month, value.day)


def _as_integer(value: Any, kind: str) -> int:
    bits, signed = int(kind.rpartition("t")[2]), not kind.startswith("u")
    allowed = range(-(1 << bits - 1), 1 << bits - 1) if signed else range(1 << bits)
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]+", value):
        raise UnfitError(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise UnfitError(str(value))
    if int(value) not in allowed:
        raise UnfitError(str(value))
    return int(value)


_FLOAT = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)


def _as_float(value: Any, given: str, kind: str) -> float:
    if isinstance(value, int) and not isinstance(value, bool):
        return exactly(value, kind) if types.loses_digits(given, kind) else float(value)
    if isinstance(value, str) and not _FLOAT.fullmatch(value):
        raise UnfitError(value)
    named = isinstance(value, str) and "inf" in value.lower()
    made = float(value)
    if kind == "float32" and not isinstance(value, float):
        made = _single_of(value, made)
    elif kind == "float32":
        made = single(made)
    if isinstance(value, Decimal) and made == 0:
        return 0.0  # a decimal's zero has no sign
    if math.isinf(made) and not named and not (isinstance(value, float) and math.isinf(value)):
        raise UnfitError(str(value))
    return made


def _single_of(value: Any, made: float) -> float:
    """The float32 nearest to a text or a decimal, rounded once."""
    if isinstance(value, bool) or not math.isfinite(made):
        return made
    exact = Fraction(Decimal(value))
    near = single(made)
    below, above = (single(near * (1 + step * 2.0**-24)) for step in (-1, 1))
    choices = [each for each in {near, below, above} if math.isfinite(each)]
    if near and choices:
        found = min(choices, key=lambda each: (abs(Fraction(each) - exact), _is_odd(each)))
        return math.copysign(found, made)
    return near


def _is_odd(value: float) -> int:
    return int(Fraction(value) / Fraction(2) ** max(math.frexp(value)[1] - 24, -149)) % 2


def _as_decimal(value: Any, kind: str) -> Decimal:
    text = str(value)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise UnfitError(text)
    scale, digits = types.scale_of(kind), types.digits_of(kind)
    with localcontext(Context(prec=400, rounding=ROUND_HALF_EVEN)):
        exact = Decimal(text)
        if exact and exact.adjusted() > 60:
            raise UnfitError(text)
        made = round(exact, scale)
        if abs(made) >= Decimal(10) ** (digits - scale):
            raise UnfitError(text)
        return made


def _day(text: str) -> dt.date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise UnfitError(text)
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UnfitError(text) from None


def _time(text: str) -> dt.datetime:
    found = re.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?", text)
    if not found:
        raise UnfitError(text)
    day, (hour, minute, second) = _day(found[1]), (int(found[place]) for place in (2, 3, 4))
    try:
        return dt.datetime(day.year, day.month, day.day, hour, minute, second, int((found[5] or "0")[:6].ljust(6, "0")))
    except ValueError:
        raise UnfitError(text) from None


def local(value: Any, kind: str) -> Any:
    """What the clock of the type's zone shows, without a zone; dates as they are."""
    zone = types.zone_of(kind) if types.is_timestamp(kind) else None
    return value.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None, fold=0) if zone else value
