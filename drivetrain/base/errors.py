"""Errors for people: what was given, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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

    def _render_traceback_(self) -> list[str]:
        """IPython's name for what a notebook shows in the place of a traceback."""
        return [f"error: {self}"]


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


def did_you_mean(given: str, allowed: Iterable[str], *, none: str = "None is declared.") -> str:
    """`Did you mean 'train'? Allowed: test, train.`: the closest match first, where there is one."""
    names = sorted(allowed)
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    close = nearest(given, names)
    return (f"Did you mean {close!r}? " if close else "") + (f"Allowed: {shown}." if names else none)


def nearest(given: str, names: Collection[str]) -> str | None:
    """The name that was probably meant: one that differs by case or by a slip of the finger, or that is begun so."""
    import difflib  # takes longer to import than most programs take to find nothing wrong
    import heapq

    def distance(name: str) -> tuple[int, bool, bool, int]:
        swapped = sorted(name) == sorted(given)
        return _slips(given, name), name[:1] != given[:1], not swapped, abs(len(name) - len(given))

    if len(names) > _MOST_COMPARED:
        names = heapq.nlargest(_MOST_COMPARED, names, key=lambda name: _common(given, name))
    folded = [name for name in names if name.strip().lower() == given.strip().lower()]
    begun = [name for name in names if len(given) > 2 and name.startswith(given)]
    slipped = min(names, key=distance, default="")
    if distance(slipped)[:2] == (1, False) and not folded:
        return slipped
    if folded or begun:
        return (folded or sorted(begun, key=len))[0]
    longer = max(len(given), len(slipped))
    if _slips(given, slipped) <= min(2, max(1, longer // 3), longer - 1):
        return slipped
    return next(iter(difflib.get_close_matches(given, names, n=1, cutoff=0.72)), None)


def _slips(one: str, other: str) -> int:
    """How many letters must be added, left out, replaced or swapped to come from one text to the other."""
    before, row = [0], [*range(len(other) + 1)]
    for i, a in enumerate(one, 1):
        previous, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            least = min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                least = min(least, previous[j - 2] + 1)
            row.append(least)
    return row[-1]


def _common(one: str, other: str) -> int:
    """How many characters two names share at their beginning and their end."""
    return _common_start(one, other) + _common_start(one[::-1], other[::-1])


def _common_start(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def first_line(error: BaseException) -> str:
    """What a library's error says, for the middle of a message: its first line, without a full stop."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
