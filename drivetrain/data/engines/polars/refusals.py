"""Read Polars' messages about values that do not fit."""

from __future__ import annotations

import re

from drivetrain.data.engines._told import Refused

_FAILED = re.compile(r"conversion from `(?P<given>[^`]+)` to `(?P<wanted>[^`]+)` failed .*?: \[(?P<value>[^,\]]*)")
_NUMBER = re.compile("([iuf])([0-9]+)")
_LETTERS = {"i": "int", "u": "uint", "f": "float"}
_DECIMAL = re.compile(r"decimal\[([0-9]+),([0-9]+)\]")
_NAMES = {"date": "date32", "datetime[μs]": "timestamp[us]"}
_NO_BOOL = "incomplete mapping specified for `replace_strict`"


# Integers are calculated in 128 bits, which come to 64; what a float would change is cast to a type that is too small.
_CALCULATED = "i128"
TOO_SMALL = {"float64": "Int8", "float32": "Int16"}
_CHANGED = {"i8": "float64", "i16": "float32"}


# Behind a text that is refused for its form.
NOT_IN_FORM = "¤"


def understood(message: str) -> Refused | None:
    """Read what was refused from a message of Polars; None if it is about something else."""
    if _NO_BOOL in message:
        return Refused("", "bool")
    found = _FAILED.search(message)
    if found is None:
        return None
    value, wanted = found["value"].replace(f'{NOT_IN_FORM}"', '"'), found["wanted"]
    if found["given"] == _CALCULATED:
        return Refused(value, _CHANGED[wanted], loses_digits=True) if wanted in _CHANGED else Refused(value, None)
    kind = _NUMBER.sub(lambda number: _LETTERS[number[1]] + number[2], wanted)
    return Refused(value, _NAMES.get(kind) or _DECIMAL.sub(r"decimal(\1, \2)", kind))
