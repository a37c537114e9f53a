"""Read Spark's messages about values that do not fit."""

from __future__ import annotations

import re

from drivetrain.data.engines._told import Refused

_CAST = re.compile(
    r'\[CAST_\w+\] The value (?P<value>.*?) of the type "(?P<given>[^"]+)" cannot be cast to "(?P<kind>\w+)'
)
_DECIMAL = re.compile(
    r"\[NUMERIC_VALUE_OUT_OF_RANGE[^\]]*\]\s+(?P<value>\S+) cannot be represented as (?P<kind>D\w+\([^)]*\))"
)
# What our own checks raise (expressions.py).
_CHECKED = re.compile(
    r"(?P<value>[\w.+-]+|(?s:\".*?\")) is not of the type "
    r"(?P<kind>\w+(?:\[[^\]]*\]|\([^)]*\))?)(?P<digits>, without loss)?"
)
# The letters behind a number say its type.
_LETTERS = re.compile(r"(?<=[0-9])(?:BD|[LSTDF])$")
_NAMES = {
    **{"TINYINT": "int8", "SMALLINT": "int16", "INT": "int32", "BIGINT": "int64", "FLOAT": "float32"},
    **{"DOUBLE": "float64", "BOOLEAN": "bool", "DATE": "date32", "TIMESTAMP_NTZ": "timestamp[us]"},
}
# In which sums of integers are calculated.
_SUMS = "DECIMAL(38,0)"


def understood(message: str) -> Refused | None:
    """Read what was refused from a message of Spark; None if it is about something else."""
    if "[ARITHMETIC_OVERFLOW] long overflow" in message:
        return Refused("", None)
    if found := _CAST.search(message):
        value = _LETTERS.sub("", found["value"]).replace("Infinity", "inf")
        calculated = (found["given"], found["kind"]) == (_SUMS, "BIGINT")
        return Refused(value, None if calculated else _NAMES.get(found["kind"], found["kind"].lower()))
    if found := _DECIMAL.search(message):
        return Refused(found["value"], found["kind"].replace("Decimal", "decimal"))
    if found := _CHECKED.search(message):
        return Refused(found["value"].replace("Infinity", "inf"), found["kind"], loses_digits=bool(found["digits"]))
    return None
