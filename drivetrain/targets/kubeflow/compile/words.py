"""Values of the spec as a task's document spells them, conditions as the CEL of a trigger, and which values the
platform's parameters and conditions can have.

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
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import parse
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


def parameter_definition(parameter: Parameter, types: Mapping[str, str]) -> dict[str, Any]:
    """A parameter of the pipeline as an input of its outermost DAG.

    Args:
        types: parameter -> List or Struct, for those whose text is JSON.
    """
    type = types.get(parameter.name)
    built: dict[str, Any] = {"parameterType": type.upper() if type else parameter_type(parameter.ref())}
    if parameter.default is not None:
        default = parse(str(parameter.default), f"parameter {parameter.name!r}") if type else parameter.default
        built |= {"defaultValue": default, "isOptional": True}
    return built


# Parameters of the platform cannot hold this: it replaces it, also in a user's text.
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
