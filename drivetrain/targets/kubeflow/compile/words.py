"""Values of the spec as a task's document spells them, and conditions as the CEL of a trigger.

A word is text, or one of these objects, which drivetrain.steps.kubeflow turns into text:

    {"parameter": KEY, "type": "Float"}     a parameter of the task, spelled by its type (JSON: a text or a number)
    {"input": NAME}                         the folder of an input
    {"uri": NAME}                           the URI of an input
    {"output": NAME}                        the folder of an output
    {"place": URI}                          a URI; a folder where the object store is one
    {"join": [ON, [WORD, ...]]}             words put together
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.values import (
    All,
    AnyOf,
    Comparison,
    Condition,
    In,
    Join,
    Not,
    Reference,
    Value,
    ValueType,
    value_type,
)

Word = Any
_OPERATORS = {
    "Equals": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqualTo": ">=",
    "LessThan": "<",
    "LessThanOrEqualTo": "<=",
}
PARAMETER_TYPES: dict[ValueType, str] = {
    "String": "STRING",
    "Integer": "NUMBER_INTEGER",
    "Float": "NUMBER_DOUBLE",
    "Boolean": "BOOLEAN",
}
"""Type of a value -> the IR's type of a parameter."""
# What stands for itself in a literal. Everything else is escaped, as CEL and Python both read it: kfp's local runner
# replaces `&&`, `||` and `!(` also inside of texts.
_PLAIN = re.compile(r"[A-Za-z0-9 _.:/@=+-]")


def literal_text(value: bool | int | float | str) -> str:
    """A literal where a program wants text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def word(value: Value, refer: Callable[[Reference], Word]) -> Word:
    """A value as a word of the document.

    Args:
        refer: the word of a reference that is no join.
    """
    if isinstance(value, Join):
        return {"join": [value.on, [word(part, refer) for part in value.values]]}
    if isinstance(value, Reference):
        return refer(value)
    return literal_text(value)


def cel(condition: Condition, refer: Callable[[Reference], str]) -> str:
    """A condition as the CEL of a trigger.

    Args:
        refer: the name of the input of the triggered task that holds a reference's value.
    """
    match condition:
        case Comparison():
            return (
                f"{_operand(condition.left, refer)} {_OPERATORS[condition.operator]} {_operand(condition.right, refer)}"
            )
        case In():
            options = ", ".join(_operand(option, refer) for option in condition.options)
            return f"{_operand(condition.value, refer)} in [{options}]"
        case Not():
            return negated(cel(condition.condition, refer))
        case AnyOf():
            return " || ".join(f"({cel(part, refer)})" for part in condition.conditions)
        case All():
            return " && ".join(f"({cel(part, refer)})" for part in condition.conditions)


def negated(expression: str) -> str:
    """The opposite of a CEL expression."""
    return f"!({expression})"


def _operand(value: Value, refer: Callable[[Reference], str]) -> str:
    if isinstance(value, Reference):
        return f"inputs.parameter_values['{refer(value)}']"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        # The service has all numbers as doubles, and compares them with doubles alone.
        return repr(float(value))
    return "'" + "".join(char if _PLAIN.fullmatch(char) else _escaped(char) for char in value) + "'"


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parameter_type(value: Value) -> str:
    """The IR's type of a parameter with such a value."""
    return PARAMETER_TYPES[value_type(value)]


def parameter_definition(parameter: Parameter) -> dict[str, Any]:
    """A parameter of the pipeline as an input of its outermost DAG."""
    built: dict[str, Any] = {"parameterType": parameter_type(parameter.ref())}
    if parameter.default is not None:
        built |= {"defaultValue": parameter.default, "isOptional": True}
    return built
