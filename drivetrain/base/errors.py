"""Errors for people: what was given, what is allowed, what to do; and the line of the user's own files that said
something, to be named in a message.

Every step imports this file: `ast` and `inspect`, which take longer to import than all else here, come when asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from functools import cache, lru_cache, wraps
from types import TracebackType
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

_MOST_COMPARED = 100
# Not resolved: in a checkout some rooms of the package are links.
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


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


def place_in(trace: TracebackType | None) -> str:
    """`digits.py, line 12`: the last frame of a traceback in a file of the user's; empty when there is none."""
    frames: list[tuple[str, int]] = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return _place(reversed(frames))


def place_of_caller() -> str:
    """The line of the user's file that is being executed; empty when there is none."""
    import inspect

    def frames() -> Generator[tuple[str, int]]:
        frame = inspect.currentframe()
        while frame is not None:
            yield frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back

    return _place(frames())


def place_of_function(function: Callable[..., Any]) -> str:
    """Where a function begins."""
    import inspect

    code = inspect.unwrap(function).__code__
    return f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}"


def place_of_field(kind: type, name: str) -> str:
    """Where a class, or one that it inherits from, declares a field; empty where its text is not to be had."""
    import ast
    import inspect

    owner = next((one for one in kind.__mro__ if name in vars(one).get("__annotations__", {})), kind)
    try:
        lines, first = inspect.getsourcelines(owner)
        file = inspect.getsourcefile(owner) or ""
        body = ast.parse(inspect.cleandoc("".join(lines)) if lines[0][:1].isspace() else "".join(lines)).body[0]
    except (OSError, TypeError, SyntaxError):
        return ""
    for node in getattr(body, "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return f"{os.path.basename(file)}, line {first + node.lineno - 1}"
    return ""


def blamed_on_place(method: Callable[[S, T], R]) -> Callable[[S, T], R]:
    """A method about something that knows its `place`, the line that wrote it: what it refuses names that line."""

    @wraps(method)
    def blaming(self: S, given: T) -> R:
        try:
            return method(self, given)
        except UserError as error:
            at_place(error, getattr(given, "place", ""))
            raise

    return blaming


def _place(frames: Iterable[tuple[str, int]]) -> str:
    return next((f"{os.path.basename(file)}, line {line}" for file, line in frames if _is_users(file)), "")


@lru_cache(4096)
def _is_users(filename: str) -> bool:
    """Whether a file is neither ours, nor Python's, nor an installed package's."""
    if filename.startswith("<") or not filename.endswith(".py"):
        return False
    return not filename.startswith(_PACKAGE) and not os.path.realpath(filename).startswith(_libraries())


@cache
def _libraries() -> tuple[str, ...]:
    import site

    # sysconfig would load all that Python was built with, which takes a millisecond.
    return tuple(
        os.path.realpath(folder) + os.sep for folder in (os.path.dirname(os.__file__), *site.getsitepackages())
    )
