"""Turn pydantic's refusal of a model into one message for people. Nothing here imports pydantic."""

from __future__ import annotations

import traceback
from typing import Any, Literal, get_args, get_origin

from drivetrain.base.errors import did_you_mean, shown
from drivetrain.base.masking import MASK, looks_secret

_KINDS = {"bool": "True or False", "int": "a whole number", "float": "a number", "string": "a text"}
_STRANGER = "nothing of this kind belongs here"
_WRITTEN = {
    "tuple_type": "give a list",
    "dict_type": 'give a dict, such as {"NAME": "value"}',
    "model_attributes_type": _STRANGER,
    "union_tag_not_found": _STRANGER,
}


def is_validation_error(error: BaseException) -> bool:
    """Return True if a pydantic model refused its values (told without importing pydantic)."""
    return type(error).__name__ == "ValidationError" and type(error).__module__.startswith("pydantic")


def explain_validation(error: Any) -> str:
    """The first broken field: its path, what was given, what is allowed."""
    problems = _without_alternatives(error.errors(include_url=False))
    # A name that does not exist comes first: it may be why another one is missing.
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden" or len(problem["loc"]) > 1)
    first = problems[0]
    path = ".".join(str(part) for part in (error.title, *first["loc"]))
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    fields = _fields(error) if len(first["loc"]) == 1 else {}
    allowed = _choices(fields[first["loc"][0]].annotation) if first["loc"] and first["loc"][0] in fields else []
    choices = f" Allowed: {', '.join(allowed)}." if allowed else ""
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(first["loc"][-1]), fields) if fields else "Remove it."
        return f"{path} does not exist. {hint}{more}"
    if first["type"] == "missing":
        return f"{path} is required.{choices}{more}"
    if first["type"] == "too_short" and choices:
        return f"{path} is empty. Give one at least.{choices}{more}"
    said = _said(first)
    if not first["loc"] and first["type"] == "value_error":  # of fields that do not go together: it names them
        return f"{said}.{more}"
    given = MASK if any(looks_secret(str(part)) for part in first["loc"]) else shown(first.get("input"))
    return f"{path} is {given}: {said}.{more}"


def _without_alternatives(problems: list[Any]) -> list[Any]:
    """Problems without those that the same value has with the other types of a union, and without the first type's
    name in its place."""
    first = problems[0]
    *place, last = first["loc"] or ("",)
    same = [one for one in problems if [*one["loc"][: len(place)]] == place and one["input"] is first["input"]]
    if not place or len(same) == 1 or not (_is_type(last) or first["type"] == "model_type"):
        return problems
    others = [one for one in problems if one not in same]
    beyond = next((one for one in same if not one["type"].endswith(("_type", "_parsing"))), None)
    kinds = [_KINDS[kind] for one in same if (kind := one["type"].partition("_")[0]) in _KINDS]
    if beyond is None and kinds:  # a value of the type, but beyond its bounds, says more
        beyond = {**first, "msg": f"give {' or '.join(dict.fromkeys(kinds))}", "type": "union"}
    return [{**(beyond or first), "loc": tuple(place)}, *others]


def _said(problem: Any) -> str:
    """The problem of the value, or advice on what to write."""
    kind: str = problem["type"]
    if kind == "model_type":
        return f"give {problem['ctx']['class_name']}(...)"
    if kind in _WRITTEN:
        return _WRITTEN[kind]
    return message_of(problem)


def message_of(problem: Any) -> str:
    """The message for a value: what to give in place of a wrong type, or what pydantic or a validator says."""
    kind, _, rest = problem["type"].partition("_")
    if kind in _KINDS and rest in ("type", "parsing", "from_float"):
        return f"give {_KINDS[kind]}"
    return problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")


def _is_type(part: object) -> bool:
    """Return True if a part of a path is pydantic's name of a type, not a field or key."""
    return isinstance(part, str) and (part in ("bool", "int", "float", "str", "none") or not part.isidentifier())


def _choices(kind: Any) -> list[str]:
    """The values of a field that takes some texts alone, or a list of such."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [value for part in get_args(kind) for value in _choices(part)] if get_origin(kind) in (tuple, list) else []


def _fields(error: BaseException) -> dict[str, Any]:
    """The fields of the model that refused, found in the frame in which it was being built."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        built: Any = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = _model(built)
        if kind.__name__ == getattr(error, "title", None) and hasattr(kind, "model_fields"):
            return dict(kind.model_fields)
    return {}


def _model(built: object) -> Any:
    # Of types alone: a user's own object may raise where it is asked whether it is true, or what it is.
    return built if issubclass(type(built), type) else type(built)
