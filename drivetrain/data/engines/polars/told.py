"""What Polars says of a value that does not fit, in a plan's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from drivetrain.data.engines.polars.expressions import EXACT
from drivetrain.data.transform import verbs
from drivetrain.data.transform.expressions import Call, Expression
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.verbs import Columns, result_type

_FAILED = re.compile(r"conversion from `(?P<given>[^`]+)` to `(?P<wanted>[^`]+)` failed .*?: \[(?P<value>[^,\]]*)")
_NUMBER = re.compile("([iuf])([0-9]+)")
_LETTERS = {"i": "int", "u": "uint", "f": "float"}
_Wrong = Callable[[Call, Columns], bool]


def told(message: str, plan: Plan, columns: Columns, joined: Mapping[str, Columns]) -> str:
    """The message with the verbs in which it can have been; one about something else as it is.

    Polars runs a plan as a whole, and calls what it calculates in between by names of its own.
    """
    found = _FAILED.search(message)
    if found is None:
        return message
    if found["given"] == "i128":  # in which integers are calculated
        kind = None
        why = "is beyond int64, in which integers are calculated. Cast them to float64 before, if 16 digits are enough"
    else:
        kind = _NUMBER.sub(lambda number: _LETTERS[number[1]] + number[2], found["wanted"])
        why = f"is not cast to {kind}. Correct the value, or cast to another type"
    places = " or ".join(dict.fromkeys(_places(plan, columns, joined, kind)))
    return f"{places or 'the plan'}: {found['value']} {why}"


def _places(plan: Plan, columns: Columns, joined: Mapping[str, Columns], kind: str | None) -> Iterator[str]:
    """Where the plan casts to this type; without one, where it calculates with integers."""

    def is_wrong(call: Call, columns: Columns) -> bool:
        if kind is None:
            return call.operation.name in EXACT and result_type(call, columns, "") == "int64"
        return call.operation.name == "cast" and result_type(call, columns, "") == kind

    for number, verb in enumerate(plan.verbs, start=1):
        where = f"verb {number}, {type(verb).__name__.lower()}"
        if isinstance(verb, verbs.Cast):
            yield from (f"{where} of {name!r}" for name, wanted in verb.types if wanted == kind)
        if isinstance(verb, verbs.Filter) and _has(verb.condition, columns, is_wrong):
            yield where
        if isinstance(verb, verbs.Derive | verbs.Aggregate | verbs.Window):
            for name, value in verb.values:
                if _has(value, columns, is_wrong):
                    yield f"{where} of {name!r}"
        columns = verb.output(columns, joined)


def _has(expression: Expression, columns: Columns, is_wrong: _Wrong) -> bool:
    if not isinstance(expression, Call):
        return False
    return is_wrong(expression, columns) or any(_has(part, columns, is_wrong) for part in expression.arguments)
