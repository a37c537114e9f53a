"""Exceptions as people see them: one clear message for what they can mend, a traceback for what only we can."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from drivetrain.base.call_site import place_in
from drivetrain.base.errors import BAD_INPUT, INTERRUPTED, RETRY, SpecError, UserError, did_you_mean, said
from drivetrain.base.os_refusals import refusal
from drivetrain.base.stopping import AwayError

BUG = 70
MAX_LINES = 3
MAX_CHARACTERS = 1_000
MAX_BUG_FRAMES = 8


def report_error(error: BaseException) -> int:
    """Say on stderr what went wrong, and return the exit code."""
    code, text = explain(error)
    if text:
        print(text, file=sys.stderr, flush=True)
    return code


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and what to say: for bad input `error: ...` in at most MAX_LINES lines."""
    if isinstance(error, AwayError):
        return RETRY, _message(str(error))
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED, "interrupted"
    place = place_in(error.__traceback__)
    if isinstance(error, SpecError) and place and not error.has_place:  # the line of their own file that asked for it
        return BAD_INPUT, _message(f"{place}: {error}")
    if isinstance(error, UserError):
        return BAD_INPUT, _message(str(error))
    if is_usage_error(error):
        return BAD_INPUT, _usage(error)
    from drivetrain.spec.validation_errors import explain_validation, is_validation_error  # beside pydantic's models

    if is_validation_error(error):
        return BAD_INPUT, _message((f"{place}: " if place else "") + explain_validation(error))
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return BAD_INPUT, "error: the current folder was removed. Change into another one."
    if isinstance(error, OSError) and (refused := refusal(error)):
        return BAD_INPUT, _message(refused)
    if place:
        # Raised in the user's own file, by code that builds a pipeline.
        from drivetrain.authoring.import_failures import advice

        return BAD_INPUT, _message(f"{place}: {said(error)}{advice(error)}")
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
    """Return True if click refused the command line (without an import of click)."""
    return hasattr(type(error), "format_message") and hasattr(type(error), "exit_code")


def _usage(error: Any) -> str:
    likely = getattr(error, "possibilities", None)
    message = " ".join(str(error.message if likely else error.format_message()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "drivetrain"
    command = context.command if context is not None else None
    option = getattr(error, "option_name", None) if command is not None and "No such" in message else None
    if option and (instead := _in_place_of(option, command)):
        message += f". {instead}"
    elif likely:
        closest = likely[:1] if option else sorted(likely)  # the first is the closest
        message += f". Did you mean {', '.join(map(repr, closest))}?"
    elif option:
        message += f". {did_you_mean(option, _options(command)).partition(' Allowed:')[0]}"
    else:
        message = " ".join(error.format_message().split()) + _without_equals(context)
    return f"error: {message}\nTry `{path} --help`."


def _in_place_of(option: str, command: Any) -> str | None:
    """Advice on an option that belongs to a subcommand, or that the command does not need."""
    below: dict[str, Any] | None = getattr(command, "commands", None)
    built = {name: each for name, each in (below or {}).items() if each is not None}  # LazyGroup knows names only
    if having := [name for name, each in built.items() if option in _options(each)]:
        return f"This is a group of commands; give it after one of them: {', '.join(having)}."
    if option != "--json":
        return None
    return "Leave it out: what this prints is for programs as it is." if below is None else "Name a command first."


def _without_equals(context: Any) -> str:
    """Advice where `--set epochs 4` was written, whose 4 click takes for another argument."""
    for parameter in getattr(getattr(context, "command", None), "params", ()):
        for given in (context.params.get(parameter.name) or ()) if "--set" in parameter.opts else ():
            if "=" not in given:
                return f" Write --set with an equals sign: --set {given}=VALUE."
    return ""


def _options(command: Any) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts if name.startswith("--")]


def _bug(error: BaseException) -> str:
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-MAX_BUG_FRAMES))
    return (
        f"{shown.rstrip()}\nerror: this is a bug in drivetrain, not a mistake of yours. Please report it with the "
        f"lines above and the output of `drivetrain version`."
    )
