"""Find the line of the user's own files to name in a message."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from drivetrain.base.errors import UserError, at_place

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

# Not resolved: in a checkout some rooms of the package are links.
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
# (sysconfig would load all that Python was built with, which takes a millisecond.)
_PYTHON = os.path.realpath(os.path.dirname(os.__file__)) + os.sep
_LIBRARIES = {"site-packages", "dist-packages"}

_WRITTEN: ContextVar[list[Any] | None] = ContextVar("written", default=None)


def place_in(trace: TracebackType | None) -> str:
    """`digits.py, line 12`: the last frame of a traceback in a file of the user's; empty when there is none."""
    frames: list[tuple[str, int]] = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return _place(reversed(frames))


def place_of_caller() -> str:
    """The line of the user's file that is being executed; empty when there is none."""

    def frames() -> Generator[tuple[str, int]]:
        frame = inspect.currentframe()
        while frame is not None:
            yield frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back

    return _place(frames())


def is_called_by_user() -> bool:
    """True where a line of the user's own, and no library, called the function that asks."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return caller is not None and is_users_file(caller.f_code.co_filename)


def place_of_function(function: Callable[..., Any]) -> str:
    """The file and line where a function begins."""
    code = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"


def place_of_field(kind: type, name: str) -> str:
    """The file and line where a class, or a base of it, declares a field; empty if its source is not available."""
    owner = next((one for one in kind.__mro__ if name in vars(one).get("__annotations__", {})), kind)
    try:
        lines, first = inspect.getsourcelines(owner)
        file = inspect.getsourcefile(owner) or ""
        body = ast.parse(inspect.cleandoc("".join(lines)) if lines[0][:1].isspace() else "".join(lines)).body[0]
    except (OSError, TypeError, SyntaxError):
        return ""
    for node in getattr(body, "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return f"{Path(file).name}, line {first + node.lineno - 1}"
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


@lru_cache(64)
def functions_in(text: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a file's text, by name and first line, as their code objects have them; none of a text that
    Python cannot read, such as a cell with magic lines."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return {(node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])): node for node in found}


@contextmanager
def recording() -> Generator[list[Any]]:
    """The steps and pipelines that are written meanwhile."""
    written: list[Any] = []
    token = _WRITTEN.set(written)
    try:
        yield written
    finally:
        _WRITTEN.reset(token)


def record(written: Any) -> None:
    """Note a step or a pipeline for `recording`."""
    if (noted := _WRITTEN.get()) is not None:
        noted.append(written)


def _place(frames: Iterable[tuple[str, int]]) -> str:
    return next((f"{os.path.basename(file)}, line {line}" for file, line in frames if is_users_file(file)), "")


@lru_cache(4096)
def is_users_file(filename: str) -> bool:
    """Return True if a file is neither ours, nor Python's, nor an installed package's."""
    if filename.startswith(("<", _PACKAGE)) or not filename.endswith(".py"):
        return False
    # Packages may be linked from elsewhere, or lie in another environment that PYTHONPATH names.
    paths = (filename, os.path.realpath(filename))
    return not any(path.startswith(_PYTHON) or _LIBRARIES.intersection(path.split(os.sep)) for path in paths)
