"""Conditions on values of the running pipeline; they nest, and combine with `&`, `|` and `~`."""

from __future__ import annotations

from typing import Annotated, Literal, NoReturn

from pydantic import Field

from drivetrain.base.errors import SpecError
from drivetrain.spec.frozen import Frozen
from drivetrain.spec.values import Value

Operator = Literal["Equals", "GreaterThan", "GreaterThanOrEqualTo", "LessThan", "LessThanOrEqualTo"]


class _Condition(Frozen):
    def __bool__(self) -> NoReturn:
        raise SpecError(
            "A condition has no value while the pipeline is built: `if`, `and`, `or`, `not` and chained comparisons "
            "cannot test it. Branch with `when(condition, then=[...])`; combine with `a & b`, `a | b`, `~a`."
        )

    def __and__(self, other: Condition) -> All:
        return All(conditions=(*_parts(self, All), *_parts(other, All)))  # type: ignore[arg-type]

    def __or__(self, other: Condition) -> AnyOf:
        return AnyOf(conditions=(*_parts(self, AnyOf), *_parts(other, AnyOf)))  # type: ignore[arg-type]

    def __invert__(self) -> Not:
        return Not(condition=self)  # type: ignore[arg-type]


class Comparison(_Condition):
    """left operator right, by the pipeline's types (numbers with numbers, text with text)."""

    kind: Literal["comparison"] = "comparison"
    operator: Operator
    left: Value
    right: Value


class In(_Condition):
    """The value is one of the options."""

    kind: Literal["in"] = "in"
    value: Value
    options: Annotated[tuple[Value, ...], Field(min_length=1)]


class Not(_Condition):
    """The condition does not hold."""

    kind: Literal["not"] = "not"
    condition: Condition


class AnyOf(_Condition):
    """At least one holds."""

    kind: Literal["any"] = "any"
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]


class All(_Condition):
    """Every one holds."""

    kind: Literal["all"] = "all"
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]


Condition = Annotated[Comparison | In | Not | AnyOf | All, Field(discriminator="kind")]
for _model in (Not, AnyOf, All):
    _model.model_rebuild()


def _parts(condition: object, kind: type[All] | type[AnyOf]) -> tuple[object, ...]:
    return condition.conditions if isinstance(condition, kind) else (condition,)
