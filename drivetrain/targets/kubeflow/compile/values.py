"""Check which values the platform's parameters and conditions can have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.spec.values import All, AnyOf, Comparison, Condition, In, Not

# What parameters of the platform cannot hold: it fills it in, also in a text that is somebody's value.
PLACEHOLDER = "{{$"
NO_PLACEHOLDERS = "it holds `{{$`, which Kubeflow Pipelines takes for a placeholder of its own."
# Kubernetes puts variables into a pod's command, and the launcher's command holds all parameters:
# https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
_EXPANDED = re.compile(r"\$(\$|\([-._A-Za-z0-9]+\))")
EXPANDED = "it holds `$$` or `$(NAME)`, which Kubernetes replaces in a pod's command."
# Its numbers are doubles, which have no larger integers one by one.
LARGEST_INTEGER = 2**53
_INTEGER = re.compile(r"[+-]?[0-9]+")


def problem_of(value: Any) -> str | None:
    """Why a parameter of the platform cannot have a value; None where it can."""
    if PLACEHOLDER in str(value):
        return NO_PLACEHOLDERS
    if _EXPANDED.search(str(value)):
        return EXPANDED
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return f"{value} is rounded there, where numbers are doubles. Allowed: -2**53 to 2**53."
    return None


def check_given(values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse what would not arrive at the platform as it was given.

    Args:
        values: of the pipeline's parameters, with the parameters' types.
        given: what was given for them, also as texts.

    Raises:
        UserError: naming the first such parameter.
    """
    for name, value in values.items():
        text = str(given.get(name, "")).strip()
        problem = problem_of(value)
        if isinstance(value, float) and _INTEGER.fullmatch(text) and Decimal(text) != Decimal(value):
            problem = f"{text:.40} is rounded to {value!r} there, where numbers are doubles."
        if problem is not None:
            raise UserError(f"--param {name}: {problem} Give {name} another value.")


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
