"""The rules of a Choice as a definition's conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.base.json_text import as_object, objects_in
from drivetrain.targets.sagemaker.states.data import LostError, found

_RULE = re.compile(r"(String|Numeric|Boolean)(Equals|(?:Less|Greater)Than(?:Equals)?)(Path)?")
_JSONATA = re.compile(r"\{%\s*(\$states\.input[\w.\[\]]*)\s*(=|<=|>=|<|>)\s*(.+?)\s*%\}", re.DOTALL)
_OPERATORS = {
    "Equals": "Equals",
    "LessThan": "LessThan",
    "LessThanEquals": "LessThanOrEqualTo",
    "GreaterThan": "GreaterThan",
    "GreaterThanEquals": "GreaterThanOrEqualTo",
}
_SIGNS = {
    "=": "Equals",
    "<": "LessThan",
    "<=": "LessThanOrEqualTo",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqualTo",
}
_TYPES = {"String": "String", "Numeric": "Float", "Boolean": "Boolean"}
_LITERAL = re.compile(r"""(true|false)|(-?\d+(?:\.\d+)?)|'([^'\\]*)'|"([^"\\]*)\"""")

Typed = Callable[[Any, str], Any]


def conditions(rule: Mapping[str, Any], data: Any, typed: Typed) -> list[dict[str, Any]]:
    """The conditions that must hold together.

    Args:
        rule: a choice of the state, And at its top allowed.
        data: the state's input.
        typed: gives the JSON of data with a type (String, Float, Boolean).

    Raises:
        LostError: no condition says it.
    """
    if "And" in rule:
        return [_condition(each, data, typed) for each in objects_in(rule, "And")]
    return [_condition(rule, data, typed)]


def _condition(rule: Mapping[str, Any], data: Any, typed: Typed) -> dict[str, Any]:
    if "Or" in rule:
        return {"Type": "Or", "Conditions": [_condition(each, data, typed) for each in objects_in(rule, "Or")]}
    if "Not" in rule:
        return {"Type": "Not", "Condition": _condition(as_object(rule["Not"]), data, typed)}
    if isinstance(text := rule.get("Condition"), str):
        return _of_jsonata(text, data, typed)
    for key, right in rule.items():
        if (said := _RULE.fullmatch(key)) is not None:
            kind = _TYPES[said[1]]
            left = typed(found(str(rule.get("Variable")), data), kind)
            right = typed(found(str(right), data), kind) if said[3] else right
            return {"Type": _OPERATORS[said[2]], "LeftValue": left, "RightValue": right}
    keys = [key for key in rule if key not in ("Variable", "Next", "Comment", "Output", "Assign")]
    raise LostError(f"no condition says {', '.join(keys) or 'nothing'}")


def _of_jsonata(text: str, data: Any, typed: Typed) -> dict[str, Any]:
    said = _JSONATA.fullmatch(text)
    literal = _LITERAL.fullmatch(said[3]) if said else None
    if said is None or literal is None:
        raise LostError(f"no condition says {text}")
    truth, number, *texts = literal.groups()
    right: Any = truth == "true" if truth else float(number) if number else texts[0] or texts[1] or ""
    kind = "Boolean" if truth else "Float" if number else "String"
    left = typed(found(f"{{% {said[1]} %}}", data), kind)
    return {"Type": _SIGNS[said[2]], "LeftValue": left, "RightValue": right}
