"""Conditions of a definition: comparisons of resolved values, `In`, `Not`, `Or`; a list of them must hold together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json, as_object, object_in
from drivetrain.targets.sagemaker.document import path_text

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.document.document import Definition

Resolve = Callable[[Any], Any]

_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "Equals": ("==", operator.eq),
    "GreaterThan": (">", operator.gt),
    "GreaterThanOrEqualTo": (">=", operator.ge),
    "LessThan": ("<", operator.lt),
    "LessThanOrEqualTo": ("<=", operator.le),
}
OPERATORS = (*_COMPARISONS, "In", "Not", "Or")
_TYPE_OF_LITERAL: dict[type, str] = {bool: "Boolean", int: "Integer", float: "Float", str: "String"}


def evaluate(condition: Any, resolve: Resolve) -> bool:
    """Return True if a condition holds; `resolve` gives the value of an expression. A list holds if all of it does.

    Raises:
        UserError: for an operator that is not known, a part that is missing, and values that cannot be compared.
    """
    given: Json = condition
    if isinstance(given, list):
        return all(evaluate(item, resolve) for item in given)
    kind, parts = _parts(given)
    if kind == "Not":
        return not evaluate(parts[0], resolve)
    if kind == "Or":
        return any(evaluate(item, resolve) for item in parts)
    values: list[Json] = [resolve(part) for part in parts]
    if kind == "In":
        return any(_compared("Equals", values[0], option) for option in values[1:])
    try:
        return _compared(kind, values[0], values[1])
    except UserError as error:
        raise UserError(f"{_where(parts[0])}: {error}") from None


def check_condition(condition: Any) -> None:
    """Refuse a condition that cannot be read, before anything runs.

    Raises:
        UserError: as `evaluate` does, but for the values.
    """
    for _ in _comparisons(condition):
        pass


def type_problems(condition: Any, definition: Definition) -> Iterator[str]:
    """Find the comparisons in a condition that its values' types do not allow, as far as the definition says the types.

    Raises:
        UserError: as `check_condition` does.
    """
    from drivetrain.spec.comparisons import incomparable

    for left, right, ordered in _comparisons(condition):
        a, b = _type_of(left, definition), _type_of(right, definition)
        if a is not None and b is not None and (problem := incomparable(a, b, ordered=ordered)) is not None:
            yield f"{expression_text(left)!r} and {expression_text(right)!r}: the condition {problem}"


def _comparisons(condition: Json) -> Iterator[tuple[Json, Json, bool]]:
    if isinstance(condition, list):
        for item in condition:
            yield from _comparisons(item)
        return
    kind, parts = _parts(condition)
    if kind in ("Not", "Or"):
        yield from _comparisons(parts)
    else:
        yield from ((parts[0], other, kind not in ("Equals", "In")) for other in parts[1:])


def _type_of(node: Json, definition: Definition) -> str | None:
    """The type of a literal or expression; None where only the run will tell."""
    from drivetrain.targets.sagemaker.document.expressions import parse_get
    from drivetrain.targets.sagemaker.document.service import UnknownPropertyError, property_type

    if not isinstance(node, dict):
        return _TYPE_OF_LITERAL.get(type(node))
    if "Std:Join" in node:
        return "String"
    if not isinstance(text := node.get("Get"), str):
        return None
    get = parse_get(text)
    if get.parameter is not None:
        return next((one.type for one in definition.parameters if one.name == get.parameter), None)
    if get.root == "Execution":
        return "String"
    source = None if get.step is None else definition.by_name.get(get.step)
    if source is None or not get.path:
        return None
    if get.path[0] == "OutputParameters":
        return next((one.type for one in source.output_parameters if one.name == get.path[-1]), None)
    try:
        return property_type(source.type, path_text(get.path))
    except UnknownPropertyError:  # told where references are checked
        return None


def described(condition: Any) -> str:
    """A condition in a line, for people: `evaluate.accuracy >= 0.97`."""
    given: Json = condition
    if isinstance(given, list):
        return " and ".join(described(item) for item in given)
    kind, parts = _parts(given)
    if kind == "Not":
        return f"not ({described(parts[0])})"
    if kind == "Or":
        return " or ".join(f"({described(part)})" for part in parts)
    texts = [expression_text(part) for part in parts]
    if kind == "In":
        return f"{texts[0]} in {', '.join(texts[1:])}"
    return f"{texts[0]} {_COMPARISONS[kind][0]} {texts[1]}"


def _parts(condition: Json) -> tuple[str, list[Json]]:
    """The operator and its operands, at least one."""
    if not isinstance(condition, dict):
        raise UserError(f"a condition is {condition!r:.80}. Allowed: an object with Type.")
    kind = condition.get("Type")
    if not isinstance(kind, str) or kind not in OPERATORS:
        raise UserError(f"condition type {kind!r:.80} is not known. {did_you_mean(str(kind), OPERATORS)}")
    if kind == "Not":
        # Older versions of the SDK write Expression, which the service refuses (aws/sagemaker-python-sdk#2746).
        return kind, [_part(condition, "Expression" if "Expression" in condition else "Condition")]
    if kind == "Or":
        return kind, _several(condition, "Conditions")
    if kind == "In":
        return kind, [_part(condition, "QueryValue"), *_several(condition, "Values")]
    return kind, [_part(condition, "LeftValue"), _part(condition, "RightValue")]


def _part(condition: dict[str, Json], key: str) -> Json:
    if key not in condition:
        raise UserError(f"a condition of type {condition['Type']} has no {key}. {did_you_mean(key, condition)}")
    return condition[key]


def _several(condition: dict[str, Json], key: str) -> list[Json]:
    given = _part(condition, key)
    if not isinstance(given, list) or not given:
        raise UserError(f"{key} of a condition of type {condition['Type']} is {given!r:.80}. Allowed: a filled list.")
    return given


def _compared(kind: str, left: Json, right: Json) -> bool:
    """Numbers are compared with numbers, text with text, truth values for equality; anything else is a mistake."""
    symbol, holds = _COMPARISONS[kind]
    kinds = (_kind(left), _kind(right))
    if kinds[0] != kinds[1] or kinds[0] is None or (kinds[0] == "truth value" and kind != "Equals"):
        raise UserError(
            f"cannot compare {_shown(left)} {symbol} {_shown(right)}. Allowed: number with number, text with text, "
            "and true or false for equality."
        )
    return holds(left, right)


def _kind(value: Json) -> str | None:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


def _shown(value: Json) -> str:
    return f"{value!r:.80} ({_kind(value) or 'neither number nor text'})"


def _where(node: Json) -> str:
    file = object_in(object_in(as_object(node), "Std:JsonGet"), "PropertyFile").get("Get")
    return expression_text(node) + (f" ({file})" if file else "")


def expression_text(node: Json) -> str:
    """A value in a few words: `evaluate.accuracy` for what is read from a report, `MinAccuracy` for a parameter."""
    if isinstance(node, dict) and len(node) == 1:
        (key, operand), *_ = node.items()
        if key == "Get" and isinstance(operand, str):
            return operand.removeprefix("Parameters.").removeprefix("Steps.")
        if key == "Std:JsonGet" and isinstance(operand, dict) and isinstance(path := operand.get("Path"), str):
            file = operand.get("PropertyFile")
            text = file.get("Get") if isinstance(file, dict) else None
            return f"{text.split('.')[1]}.{path}" if isinstance(text, str) and text.startswith("Steps.") else path
        if key == "Std:Join" and isinstance(operand, dict) and isinstance(values := operand.get("Values"), list):
            return str(operand.get("On", "")).join(expression_text(value) for value in values)
    return node if isinstance(node, str) else repr(node)[:80]
