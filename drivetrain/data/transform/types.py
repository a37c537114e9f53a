"""The types of columns in a transformation, by name, and what may be done with them.

A name is Arrow's, with float32 and float64 for its float and double, date32 for date32[day]:

    int8 ... int64, uint8 ... uint64, float32, float64, bool, string, binary, date32, timestamp[us],
    timestamp[us, tz=Europe/Zurich], decimal(10, 2), null (a literal null)
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.arrow import DataType, arrow

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = ("float32", "float64")
PLAIN = (*INTEGERS, *FLOATS, "bool", "string", "binary", "date32", "timestamp[us]")
# What Arrow and people write for the same type.
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "date32[day]": "date32",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "binary_view": "binary",
    "halffloat": "float32",
}
_ZONED = re.compile(r"timestamp\[(?:s|ms|us|ns), tz=([^\]]+)\]")
_NAIVE = re.compile(r"timestamp\[(?:s|ms|us|ns)\]")
_DECIMAL = re.compile(r"decimal(?:32|64|128)?\((\d+), ?(\d+)\)")
MAX_DECIMAL_DIGITS = 38


def type_named(text: str) -> str:
    """The type that a name means, in the one spelling that is used here.

    Raises:
        InputError: there is no such type.
    """
    name = _ALIASES.get(text, text)
    if name in PLAIN or name == "null":
        return name
    if _NAIVE.fullmatch(name):
        return "timestamp[us]"
    if zoned := _ZONED.fullmatch(name):
        return f"timestamp[us, tz={known_zone(zoned[1])}]"
    if (decimal := _DECIMAL.fullmatch(name)) and int(decimal[2]) <= int(decimal[1]) <= MAX_DECIMAL_DIGITS:
        return decimal_type(int(decimal[1]), int(decimal[2]))
    raise InputError(
        f"there is no type {text!r}. {did_you_mean(text, PLAIN)} Also: timestamp[us, tz=Europe/Zurich], decimal(10, 2)."
    )


def known_zone(name: str) -> str:
    """The name of a time zone.

    Raises:
        InputError: the time zone database has none of this name.
    """
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise InputError(f"there is no time zone {name!r}. Give a name such as UTC or Europe/Zurich.") from None
    return name


def type_of(data_type: DataType, column: str) -> str:
    """The type of an Arrow column; its name begins a message.

    Raises:
        InputError: columns of this type cannot be transformed.
    """
    pa = arrow()
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    try:
        return type_named(str(data_type))
    except InputError:
        raise InputError(
            f"column {column!r} is of the type {data_type}, which cannot be transformed. Allowed: {', '.join(PLAIN)}, "
            "time stamps with a zone and decimals of up to 38 digits. To leave it out, name the others with types "
            "in the schema, and give extra_columns=drop."
        ) from None


def arrow_type(name: str) -> Any:
    """The Arrow type of a name that `type_named` gave."""
    pa = arrow()
    if name == "null":
        return pa.null()
    if zoned := _ZONED.fullmatch(name):
        return pa.timestamp("us", tz=zoned[1])
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return pa.type_for_alias(name)


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """The Arrow schema of columns, name -> type."""
    return arrow().schema([(name, arrow_type(kind)) for name, kind in columns.items()])


def decimal_type(precision: int, scale: int) -> str:
    return f"decimal({precision}, {scale})"


def is_integer(name: str) -> bool:
    return name in INTEGERS


def is_float(name: str) -> bool:
    return name in FLOATS


def loses_digits(integer: str, floating: str) -> bool:
    """Return True if an integer of the one type may be no value of the other; False for other types."""
    bits = {"float32": 24, "float64": 53}.get(floating, 64)
    return is_integer(integer) and bits < int(integer.rpartition("t")[2])


def is_decimal(name: str) -> bool:
    return name.startswith("decimal")


def scale_of(name: str) -> int:
    """The digits after the point of a decimal type."""
    found = _DECIMAL.fullmatch(name)
    assert found, name
    return int(found[2])


def digits_of(name: str) -> int:
    """The digits of a decimal type, before and after the point."""
    found = _DECIMAL.fullmatch(name)
    assert found, name
    return int(found[1])


def is_timestamp(name: str) -> bool:
    return name.startswith("timestamp")


def zone_of(name: str) -> str | None:
    """The zone of a time stamp's type; None for one without."""
    found = _ZONED.fullmatch(name)
    return found[1] if found else None


def is_kind(name: str, kind: str) -> bool:
    """Return True if a type is of a kind that operations take; a literal null is of each."""
    return name == "null" or _KINDS[kind](name)


_KINDS: Mapping[str, Callable[[str], bool]] = {
    "any": lambda name: True,
    "number": lambda name: is_integer(name) or is_float(name),
    "integer": is_integer,
    "float": is_float,
    "text": lambda name: name == "string",
    "bool": lambda name: name == "bool",
    "date": lambda name: name == "date32" or is_timestamp(name),
    "time": is_timestamp,
    "ordered": lambda name: name != "binary",
}


def common_type(names: Sequence[str]) -> str | None:
    """The one type in which values of all these types are: the same, or a number's that holds all; None without one."""
    found = [name for name in dict.fromkeys(names) if name != "null"]
    if len(found) <= 1:
        return found[0] if found else "null"
    if all(is_integer(name) for name in found):
        return None if "uint64" in found else "int64"
    return "float64" if all(is_kind(name, "number") for name in found) else None
