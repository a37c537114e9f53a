"""The value of a condition, once all that it compares is known; by the types of the pipeline, as on SageMaker."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from drivetrain.spec.values import All, AnyOf, Comparison, Condition, In, Not, Reference, Value

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
}


def holds(condition: Condition, known: Callable[[Reference], Any]) -> bool:
    """Return True if a condition holds.

    Args:
        known: the value of a reference.

    Raises:
        KeyError: of `known`, where a value is not known yet.
    """

    def value(given: Value) -> Any:
        return known(given) if isinstance(given, Reference) else given

    match condition:
        case Comparison():
            return _COMPARE[condition.operator](value(condition.left), value(condition.right))
        case In():
            return value(condition.value) in [value(option) for option in condition.options]
        case Not():
            return not holds(condition.condition, known)
        case AnyOf():
            return any(holds(part, known) for part in condition.conditions)
        case All():
            return all(holds(part, known) for part in condition.conditions)
