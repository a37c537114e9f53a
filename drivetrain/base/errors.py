"""Errors for people: what was given, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

_MOST_COMPARED = 100


# How a line of a step's log begins that the user should see, wherever the step runs.
WARNING = "warning: "


def warn(text: str) -> None:
    """Print what the user should know of the work of a step, though it goes on: a run shows it beside the step."""
    print(f"{WARNING}{text}", flush=True)


class UserError(ValueError):
    """Something the user can mend: what Python users catch, whatever part of drivetrain refuses their input.

    The command line prints the message alone and ends with exit code 2.
    """

    has_place = False
    """Whether the message names the line of the user's file that is to be mended."""


class InputError(UserError):
    """Bad input of a step or of a program in a container.

    The program ends with exit code 2 and prints the message alone, without a traceback.
    """


class AwayError(OSError):
    """A service did not answer for as long as it is waited for: nobody's input is wrong, and a retry may help.

    A training ends with exit code 75 and prints the message alone.
    """


class SpecError(UserError):
    """A pipeline that cannot be built, found before anything runs."""


E = TypeVar("E", bound=UserError)


def at_place(error: E, place: str) -> E:
    """The error with the line of the user's file before its message, where there is one and none is named yet."""
    if place and not error.has_place:
        error.args = (f"{place}: {error}",)
        error.has_place = True
    return error


def shown(value: Any, characters: int = 80) -> str:
    """The beginning of a value's repr, whatever the user's own class does when it is asked for one."""
    try:
        return repr(value)[:characters]
    except Exception as error:
        return f"<a {type(value).__name__}, whose repr raises {type(error).__name__}>"


def said(error: BaseException) -> str:
    """An exception's type and message, whatever the user's own class does when it is asked for one."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as other:
        return f"{type(error).__name__}, whose message raises {type(other).__name__}"


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """`Did you mean 'train'? Allowed: test, train.`: the closest match first, where there is one."""
    import difflib  # takes longer to import than most programs take to find nothing wrong
    import heapq

    names = sorted(allowed)
    likely = names
    if len(names) > _MOST_COMPARED:  # comparing takes 20 microseconds a name
        likely = heapq.nlargest(_MOST_COMPARED, names, key=lambda name: _common(given, name))
    close = difflib.get_close_matches(given, likely, n=1, cutoff=0.55)
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return (f"Did you mean {close[0]!r}? " if close else "") + (f"Allowed: {shown}." if names else "None is declared.")


def _common(one: str, other: str) -> int:
    """How many characters two names share at their beginning and their end."""
    return _common_start(one, other) + _common_start(one[::-1], other[::-1])


def _common_start(one: str, other: str) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def first_line(error: BaseException) -> str:
    """What a library's error says, for the middle of a message: its first line, without a full stop."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
