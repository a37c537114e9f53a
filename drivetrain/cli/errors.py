"""Exceptions as people see them: one clear message for what they can mend, a traceback for what only we can."""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from drivetrain.base.errors import SpecError, UserError, did_you_mean, said, shown

BAD_INPUT = 2
BUG = 70
INTERRUPTED = 130
MAX_LINES = 3
MAX_CHARACTERS = 1_000
MAX_BUG_FRAMES = 8

# What the machine refuses and its owner can change. Any other OSError was not foreseen.
_REFUSALS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EISDIR", "ENOTDIR", "ENAMETOOLONG", "EMFILE", "EIO")
)


def report_error(error: BaseException) -> int:
    """Say on stderr what went wrong, and return the exit code."""
    code, text = explain(error)
    if text:
        print(text, file=sys.stderr, flush=True)
    return code


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and what to say: for bad input `error: ...` in at most MAX_LINES lines."""
    from drivetrain.base.call_site import place_in
    from drivetrain.base.errors import InputError

    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED, "interrupted"
    place = place_in(error.__traceback__)
    if isinstance(error, SpecError) and place and not error.has_place:  # the line of their own file that asked for it
        return BAD_INPUT, _message(f"{place}: {error}")
    if isinstance(error, UserError | InputError):
        return BAD_INPUT, _message(str(error))
    if is_usage_error(error):
        return BAD_INPUT, _usage(error)
    if is_validation_error(error):
        return BAD_INPUT, _message((f"{place}: " if place else "") + explain_validation(error))
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return BAD_INPUT, "error: the current folder was removed. Change into another one."
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        return BAD_INPUT, _message(f"{error.filename or 'the output'}: {error.strerror}.")
    if place:
        # Raised in the user's own file, by code that builds a pipeline.
        return BAD_INPUT, _message(f"{place}: {said(error)}")
    return BUG, _bug(error)


def _is_nowhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _message(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()] or ["unknown"]
    lines = [line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 3] + "..." for line in lines]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1] += f" (and {len(lines) - MAX_LINES} more)"
    return "\n".join([f"error: {lines[0]}", *lines[1:MAX_LINES]])


def is_usage_error(error: BaseException) -> bool:
    """Whether click refused the command line (told without importing click)."""
    return hasattr(type(error), "format_message") and hasattr(type(error), "exit_code")


def _usage(error: Any) -> str:
    likely = getattr(error, "possibilities", None)
    message = " ".join(str(error.message if likely else error.format_message()).split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "drivetrain"
    if likely:
        message = f"{message.rstrip('.')}. Did you mean {', '.join(map(repr, sorted(likely)))}?"
    elif (option := getattr(error, "option_name", None)) and context is not None and "No such" in message:
        known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        message = f"{message.rstrip('.')}. {did_you_mean(option, known).partition(' Allowed:')[0]}"
    return f"error: {message}\nTry `{path} --help`."


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


def _bug(error: BaseException) -> str:
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-MAX_BUG_FRAMES))
    return (
        f"{shown.rstrip()}\nerror: this is a bug in drivetrain, not a mistake of yours. Please report it with the "
        f"lines above and the output of `drivetrain version`."
    )
