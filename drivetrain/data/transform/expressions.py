"""Expressions over the columns of a table: frozen, typed data that engines translate.

    col("price") * col("count")             multiply
    op("if_else", col("a") < 0, 0, "a")     operations by name; operations.py lists them
    lit("text")                             a text; a bare text names a column

The same as JSON, for a step's parameter: {"multiply": ["price", "count"]}, {"if_else": [{"less": ["a", 0]}, 0, "a"]},
{"value": "text"}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.data.transform.operations import Operation, operation

Value = bool | int | float | str | None
_INT64 = range(-(1 << 63), 1 << 63)


class Expression:
    """A column, a literal, or an operation on expressions."""

    def __add__(self, other: Any) -> Call:
        return op("add", self, other)

    def __sub__(self, other: Any) -> Call:
        return op("subtract", self, other)

    def __mul__(self, other: Any) -> Call:
        return op("multiply", self, other)

    def __truediv__(self, other: Any) -> Call:
        return op("divide", self, other)

    def __lt__(self, other: Any) -> Call:
        return op("less", self, other)

    def __le__(self, other: Any) -> Call:
        return op("less_equal", self, other)

    def __gt__(self, other: Any) -> Call:
        return op("greater", self, other)

    def __ge__(self, other: Any) -> Call:
        return op("greater_equal", self, other)

    def __and__(self, other: Any) -> Call:
        return op("and", self, other)

    def __or__(self, other: Any) -> Call:
        return op("or", self, other)

    def __invert__(self) -> Call:
        return op("not", self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Expression):
            # Plans are compared by it: two expressions that are alike are one.
            return type(self) is type(other) and vars(self) == vars(other)
        raise InputError(
            f"an expression is compared with {other!r:.60} by ==, which tells nothing while a transformation is "
            'declared. Write op("equal", a, b), or op("not_equal", a, b); lit(value) is a literal.'
        )

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __bool__(self) -> bool:
        raise InputError(
            "an expression has no truth value while a transformation is declared. Use & | ~ for and, or, not; "
            'op("equal", a, b) compares, and op("between", a, low, high) replaces low <= a <= high.'
        )


@dataclass(frozen=True, eq=False)
class Column(Expression):
    name: str


@dataclass(frozen=True, eq=False)
class Literal(Expression):
    value: Value


@dataclass(frozen=True, eq=False)
class Call(Expression):
    operation: Operation
    arguments: tuple[Expression, ...]


def col(name: str) -> Column:
    """The column of this name."""
    return Column(name)


def lit(value: Any) -> Literal:
    """A number, text, bool or null.

    Raises:
        InputError: a value of another type, or an integer beyond 64 bits.
    """
    if value is not None and not isinstance(value, bool | int | float | str):
        raise InputError(f"a literal is {value!r}. Allowed: numbers, text, true, false and null.")
    if isinstance(value, int) and value not in _INT64:
        raise InputError(f"the literal {value} does not fit 64 bits. Give it as text and cast it to a decimal.")
    return Literal(value)


def expression(value: Any) -> Expression:
    """An expression as it is; a text names a column, any other value is a literal.

    Raises:
        InputError: a value that cannot be a literal.
    """
    if isinstance(value, Expression):
        return value
    return Column(value) if isinstance(value, str) else lit(value)


def op(name: str, *arguments: Any) -> Call:
    """An operation on expressions; bare texts name columns, other bare values are literals.

    Raises:
        InputError: the operation is not on the list, or takes another number of arguments.
    """
    found = operation(name)
    given = tuple(_argument(found, place, argument) for place, argument in enumerate(arguments))
    found.check_count(len(given))
    return Call(found, given)


def _argument(found: Operation, place: int, given: Any) -> Expression:
    return lit(given) if isinstance(given, str) and found.is_constant(place) else expression(given)


def from_json(value: object, where: str) -> Expression:
    """The expression that a JSON value declares; `where` begins a message.

    Raises:
        InputError: it declares none.
    """
    if isinstance(value, str):
        return Column(value)
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, object]", value).items())
        if len(items) != 1:
            raise InputError(
                f'{where}: an expression is an object of one entry, such as {{"add": ["a", 1]}}; this has {len(items)}.'
            )
        ((name, given),) = items
        if name == "value":
            return lit(given)
        try:
            found = operation(name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        arguments = cast("Sequence[object]", given) if isinstance(given, list) else [given]
        parts = tuple(
            lit(part) if isinstance(part, str) and found.is_constant(place) else from_json(part, where)
            for place, part in enumerate(arguments)
        )
        found.check_count(len(parts))
        return Call(found, parts)
    return lit(value)


def as_json(expression: Expression) -> object:
    """The expression as JSON, for `from_json`."""
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, Literal):
        value = expression.value
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(
                f"the literal {value} has no JSON. Cast a text: {{'cast': [{{'value': 'nan'}}, 'float64']}}."
            )
        return {"value": value} if isinstance(value, str) else value
    assert isinstance(expression, Call)
    arguments = [
        part.value if isinstance(part, Literal) and expression.operation.is_constant(place) else as_json(part)
        for place, part in enumerate(expression.arguments)
    ]
    return {expression.operation.name: arguments}


def columns_of(expression: Expression) -> tuple[str, ...]:
    """The names of the columns that an expression reads, each once."""
    if isinstance(expression, Column):
        return (expression.name,)
    if isinstance(expression, Call):
        return tuple(dict.fromkeys(name for part in expression.arguments for name in columns_of(part)))
    return ()
