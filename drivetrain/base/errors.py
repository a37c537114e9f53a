"""Errors for people: what was given, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

# How a line of a step's log begins that the user should see, and the reason of bad input, wherever the step runs.
WARNING, ERROR = "warning: ", "error: "
# The exit codes of programs. A retry helps after RETRY (EX_TEMPFAIL of sysexits.h); after FAILED and BAD_INPUT the same
# would happen again; INTERRUPTED is a person's doing, from the keyboard.
FAILED, BAD_INPUT, RETRY, INTERRUPTED = 1, 2, 75, 130


def warn(text: str) -> None:
    """Print what the user should know of a step that goes on."""
    print(f"{WARNING}{text}", flush=True)


class UserError(ValueError):
    """Something the user can mend: what Python users catch, whatever part of drivetrain refuses their input.

    The command line prints the message alone and ends with exit code 2.
    """

    has_place = False
    """True if the message names the line of the user's file that is to be mended."""

    def _render_traceback_(self) -> list[str]:
        """IPython shows it instead of a traceback."""
        return [f"error: {self}"]


class InputError(UserError):
    """Bad input of a step or of a program in a container.

    The program ends with exit code 2 and prints the message alone, without a traceback.
    """


class SpecError(UserError):
    """A pipeline that cannot be built, found before anything runs."""


E = TypeVar("E", bound=UserError)


class Notice(FutureWarning):
    """Something that is ignored or will change; the command line says it as a note."""


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


def and_more(texts: Iterable[object], most: int, between: str = ", ") -> str:
    """`a, b and 4 more`: the first few of some texts."""
    known = [str(text) for text in texts]
    return between.join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def did_you_mean(given: str, allowed: Iterable[str], *, none: str = "None is declared.") -> str:
    """`Did you mean 'train'? Allowed: test, train.`"""
    names = sorted(allowed)
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    close = nearest(given, names)
    return (f"Did you mean {close!r}? " if close else "") + (f"Allowed: {shown}." if names else none)


def nearest(given: str, names: Collection[str]) -> str | None:
    """The name that was probably meant."""
    from difflib import get_close_matches

    folded = [name for name in names if name.strip().lower() == given.strip().lower()]
    within = [name for name in names if len(given) > 2 and given in name]
    pairs = [given[i : i + 2] for i in range(len(given))]
    names = sorted(names, key=lambda name: sum(pair in name for pair in pairs))[-20:]
    far, elsewhere, _, slipped = min(((*_slips(given, name), name) for name in names), default=(9, True, 0, ""))
    if folded:
        return folded[0]
    if within and (far, elsewhere) != (1, False):
        return min(within, key=len)
    longer = max(len(given), len(slipped))
    if far <= min(2, max(1, longer // 3), longer - 1):
        return slipped
    return next(iter(get_close_matches(given, [name for name in names if name[:1] == given[:1]], 1, 0.55)), None)


def _slips(one: str, other: str) -> tuple[int, bool, int]:
    """How many letters differ (a swap is one), if the first does, and by how many one is longer."""
    row = [*range(len(other) + 1)]
    for i, a in enumerate(one, 1):
        before, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))
    swapped = sorted(one) == sorted(other) and row[-1] == 2
    return row[-1] - swapped, one[:1] != other[:1], abs(len(one) - len(other)) - swapped


def first_line(error: BaseException) -> str:
    """The text of a library's error for the middle of a message: its first line, without a full stop."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
