"""What pydantic refuses of a model, in one message for people. Nothing here imports pydantic."""

from __future__ import annotations

import traceback
from typing import Any, Literal, get_args, get_origin

from drivetrain.base.errors import did_you_mean, shown


def is_validation_error(error: BaseException) -> bool:
    """Whether a pydantic model refused its values (told without importing pydantic)."""
    return type(error).__name__ == "ValidationError" and type(error).__module__.startswith("pydantic")


def explain_validation(error: Any) -> str:
    """The first broken field: its path, what was given, what is allowed."""
    problems = error.errors(include_url=False)
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
    return f"{path} is {shown(first.get('input'))}: {first['msg'].rstrip('.')}.{more}"


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
