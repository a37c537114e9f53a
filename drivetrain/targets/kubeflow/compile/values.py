"""Which values the platform's parameters and conditions can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivetrain.spec.values import All, AnyOf, Comparison, Condition, In, Not

# What parameters of the platform cannot hold: it fills it in, also in a text that is somebody's value.
PLACEHOLDER = "{{$"
NO_PLACEHOLDERS = "it holds `{{$`, which Kubeflow Pipelines takes for a placeholder of its own."
# Its numbers are doubles, which have no larger integers one by one.
LARGEST_INTEGER = 2**53


def problem_of(value: Any) -> str | None:
    """Why a parameter of the platform cannot have a value; None where it can."""
    if PLACEHOLDER in str(value):
        return NO_PLACEHOLDERS
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return f"{value} is rounded there, where numbers are doubles. Allowed: -2**53 to 2**53."
    return None


def integers_in(condition: Condition) -> Iterator[int]:
    """The integers with which a condition compares."""
    values: tuple[Any, ...] = ()
    match condition:
        case Comparison():
            values = (condition.left, condition.right)
        case In():
            values = condition.options
        case Not():
            yield from integers_in(condition.condition)
        case AnyOf() | All():
            for part in condition.conditions:
                yield from integers_in(part)
    yield from (value for value in values if isinstance(value, int))
