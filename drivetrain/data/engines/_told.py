"""Messages about values that do not fit, in a plan's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from drivetrain.data.transform import types, verbs
from drivetrain.data.transform.expressions import Call, Expression
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.verbs import Columns, result_type

_NEAREST = "Take nearest_float of it where the last digits may change"
# What they choose from is cast to one type.
_CHOICES = ("fill_null", "fill_nan", "coalesce", "if_else")
_LENGTH = 60
_Wrong = Callable[[Call, Columns], bool]


@dataclass(frozen=True)
class Refused:
    """A value that an engine refused."""

    value: str
    """As it is shown; empty where the engine does not say it."""
    kind: str | None
    """The type that it was cast to; None where integers were calculated."""
    loses_digits: bool = False
    """True for an integer with more digits than a float holds."""


def told(found: Refused, plan: Plan, columns: Columns, joined: Mapping[str, Columns]) -> str:
    """The message, with the verbs in which it can have been: an engine runs a plan as a whole, and calls what it
    calculates in between by names of its own.

    Args:
        found: what was refused.
        plan: what was run.
        columns: the columns of its table.
        joined: those of the tables that it joins with.
    """
    if found.kind is None:
        why = "is beyond int64, in which integers are calculated. Take nearest_float of them, if 16 digits are enough"
    elif found.loses_digits:
        why = f"is not cast to {found.kind}, which does not hold all of its digits. {_NEAREST}"
    else:
        why = f"is not cast to {found.kind}. Correct the value, or cast to another type"
    places = " or ".join(dict.fromkeys(_places(plan, columns, joined, found.kind)))
    return f"{places or 'the plan'}: {_shown(found.value)} {why}"


def _shown(value: str) -> str:
    line = " ".join(value.splitlines())
    return (line if len(line) <= _LENGTH else f"{line[: _LENGTH - 3]}...") or "a value"


def _places(plan: Plan, columns: Columns, joined: Mapping[str, Columns], kind: str | None) -> Iterator[str]:
    """The places where the plan casts to this type; without one, where it calculates with integers."""

    def is_wrong(call: Call, columns: Columns) -> bool:
        operation = call.operation
        if kind is not None:
            if result_type(call, columns, "") != kind:
                return False
            given = (result_type(part, columns, "") for part in call.arguments)
            return operation.name == "cast" or (
                operation.name in _CHOICES and any(types.loses_digits(each, kind) for each in given)
            )
        if operation.name == "add_seconds":
            return True
        calculates = operation.takes[:1] in (("number",), ("integer",)) or operation.name == "sum"
        return calculates and result_type(call, columns, "") == "int64"

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
