"""The values with which an execution starts: given ones, which arrive as text from a command line, and defaults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.catalog.quotas import MAX_PARAMETER_VALUE_CHARACTERS, MAX_PARAMETERS_AT_START

TYPES = ("String", "Integer", "Float", "Boolean")

ALLOWED = {
    "String": "text",
    "Integer": "a whole number such as 3",
    "Float": "a finite number such as 0.5",
    "Boolean": "true or false",
}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Declared(Protocol):
    """A parameter of a pipeline, as its code or as a definition declares it."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def default(self) -> Any: ...
    @property
    def choices(self) -> Sequence[Any]: ...


def bind(parameters: Iterable[Declared], given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter name -> typed value, in the order of the declarations; text is read as the parameter's type.

    Raises:
        UserError: a name that is not declared, a value of the wrong type or outside the enum, and all parameters
            that have neither value nor default.
    """
    declared = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in declared:
            raise UserError(f"no parameter {name!r}. {did_you_mean(name, declared)}")
    if len(given) > MAX_PARAMETERS_AT_START:
        raise UserError(f"{len(given)} parameters are given; at most {MAX_PARAMETERS_AT_START} at a start.")
    bound: dict[str, Any] = {}
    missing: list[Declared] = []
    for parameter in declared.values():
        if parameter.name in given:
            bound[parameter.name] = typed(parameter, given[parameter.name])
        elif parameter.default is not None:
            bound[parameter.name] = typed(parameter, parameter.default)
        else:
            missing.append(parameter)
    if missing:
        names = ", ".join(f"{parameter.name} ({parameter.type})" for parameter in missing)
        raise UserError(f"no value for {names}: give {'it' if len(missing) == 1 else 'them'} as NAME=VALUE.")
    return bound


def typed(parameter: Declared, given: Any) -> Any:
    """One value as the parameter's type.

    Raises:
        UserError: saying what was given and what is allowed.
    """
    if parameter.type not in TYPES:
        raise UserError(f"parameter {parameter.name!r} has type {parameter.type!r}. Allowed: {', '.join(TYPES)}.")
    value = value_of_type(parameter.type, given)
    if value is None:
        at_most = f" of at most {MAX_PARAMETER_VALUE_CHARACTERS:,} characters" if parameter.type == "String" else ""
        raise UserError(f"parameter {parameter.name!r} is {given!r:.60}. Allowed: {ALLOWED[parameter.type]}{at_most}.")
    if isinstance(given, str) and len(given) > MAX_PARAMETER_VALUE_CHARACTERS:  # so long as it is sent
        raise UserError(
            f"parameter {parameter.name!r} is text of {len(given):,} characters; at most "
            f"{MAX_PARAMETER_VALUE_CHARACTERS:,} can be given at start. Put it in a file, and give its place as the "
            "input of a step."
        )
    if parameter.choices and not any(value_of_type(parameter.type, choice) == value for choice in parameter.choices):
        allowed = [str(choice) for choice in parameter.choices]
        raise UserError(f"parameter {parameter.name!r} is {value!r:.60}. {did_you_mean(str(value), allowed)}")
    return value


def value_of_type(kind: str, given: Json) -> str | int | float | bool | None:
    """The value, or None if `given` is not of this type."""
    if kind == "String":
        return given if isinstance(given, str) else None
    if kind == "Boolean":
        if isinstance(given, str):
            return _TRUTH.get(given.strip().lower())
        return given if isinstance(given, bool) else None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    try:
        if kind == "Integer":
            if isinstance(given, str):
                return int(given.strip()) if given.isascii() and "_" not in given else None
            return int(given) if given == int(given) else None
        number = float(given) if not isinstance(given, str) or "_" not in given else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
