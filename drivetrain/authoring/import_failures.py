"""Why a pipeline's file did not import, and calls in it that were meant for `step`, in words for its author."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pydantic import ValidationError

import drivetrain
from drivetrain import components
from drivetrain.base.call_site import functions_in, is_users_file, place_in, place_of_function
from drivetrain.base.errors import SpecError, UserError, at_place, nearest, said
from drivetrain.spec.validation_errors import explain_validation
from drivetrain.steps.declaration import Component

_NOT_OURS = re.compile(r"cannot import name '(\w+)' from 'drivetrain(?:\.components)?'")
_CHARACTERS = 120


def explained(error: Exception | SystemExit, path: Path) -> UserError:
    """The error for people.

    Args:
        path: the file that was imported.
    """
    if isinstance(error, SyntaxError):
        file = Path(error.filename or path).name  # perhaps one that it imports
        # An annotation that is a text has no line of its own.
        where = place_in(error.__traceback__) if error.lineno is None else f"{file}, line {error.lineno}"
        written = f" in `{error.text.strip()}`" if error.text and error.text.strip() else ""
        return UserError(f"{where or file}: {error.msg}{written}.")
    if isinstance(error, SystemExit):
        return UserError(
            f"{path.name} ended the program ({ended(error)}) when it was imported. Keep what it does as a script under "
            'if __name__ == "__main__".'
        )
    if isinstance(error, ValidationError):
        return at_place(SpecError(explain_validation(error)), place_in(error.__traceback__))
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), "?")
    return UserError(f"{path.name}, line {line}: {said(error)}{advice(error)}")


def explained_in(error: SystemExit | ValidationError, author: Callable[..., Any]) -> UserError:
    """The error for people, of a pipeline's function that was called."""
    if isinstance(error, ValidationError):
        return explained(error, Path())
    text = f"{author.__name__}() ended the program ({ended(error)}); it must return a Pipeline."
    return at_place(UserError(text), place_in(error.__traceback__) or place_of_function(author))


def ended(error: SystemExit) -> str:
    """How a program ended itself."""
    return "sys.exit()" if error.code is None else f"sys.exit({error.code!r:.60})"


def advice(error: BaseException) -> str:
    """Advice, where the kind of the error gives one."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        return f". Install what brings {top} (python -m pip install ...); what a step alone needs it imports itself."
    if isinstance(error, NameError):
        frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
        close = nearest(error.name or "", {*frame.f_locals, *frame.f_globals})
        return f". Did you mean {close!r}?" if close else ""
    if isinstance(error, TypeError) and str(error).startswith("step() takes 1 positional"):
        named = by_name(*[*traceback.walk_tb(error.__traceback__)][-1])
        return f". {named}" if named else ""
    if not isinstance(error, ImportError):
        return ""
    if missed := _NOT_OURS.match(str(error)):
        name = missed[1]
        if name in components.__all__:
            return f". Write: from drivetrain.components import {name}"
        close = nearest(name, {*drivetrain.__all__, *components.__all__})
        return f". Did you mean {close!r}?" if close else ""
    if "no known parent package" not in str(error):
        return ""
    # A file of a package, which is imported alone here.
    return (
        ". A pipeline file is imported by its own name, not as a part of its package. Import what lies beside it "
        "without the dot (from other import name), or call dt.run(FUNCTION) in Python, the function imported from its "
        "package."
    )


def called_now(value: Any, otherwise: str = "Decorate the function with @component.") -> str:
    """The call of a component whose result stands where a step belongs, and what to write.

    Args:
        otherwise: the advice where no such call is seen.
    """
    frame = _users_frame(inspect.currentframe())
    if frame is None:
        return otherwise
    held = {name for name, one in frame.f_locals.items() if one is value}
    within = set[ast.AST]()
    assigned: ast.Call | None = None
    for node in _nodes(frame):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = {each.id for each in node.targets if isinstance(each, ast.Name)}
            if names & held and _component(frame, node.value) and node.lineno <= frame.f_lineno:
                assigned = node.value
        if isinstance(node, ast.Call) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0):
            within |= {each for each in ast.walk(node) if isinstance(each, ast.Call) and _component(frame, each)}
    found = assigned or (next(iter(within)) if len(within) == 1 else None)
    if not isinstance(found, ast.Call):
        return otherwise
    as_step = _named(frame, found.func, found, 0) or f"step({_text(found.func)}, ...)"
    return f"In line {found.lineno}: {_text(found)} was called now. Write {as_step}."


def by_name(frame: FrameType, line: int) -> str:
    """How the values that `step(...)` was given by position in a line are given by name; empty where that is not
    seen."""
    calls = [
        each for each in _nodes(frame) if isinstance(each, ast.Call) and _text(each.func).rpartition(".")[2] == "step"
    ]
    calls = [each for each in calls if each.lineno <= line <= (each.end_lineno or 0) and len(each.args) > 1]
    named = _named(frame, calls[0].args[0], calls[0], 1) if len(calls) == 1 else ""
    return named and f"Name the input: {named}."


def _named(frame: FrameType, component: ast.expr, call: ast.Call, first: int) -> str:
    """`step(measure, x=a)`, for a call that gives `a` by position."""
    found = _value(frame, component)
    if not isinstance(found, Component):
        return ""
    given = {each.arg for each in call.keywords}
    free = [name for name in inspect.signature(found.function).parameters if name not in given]
    free = [name for name in free if name in found.inputs or name in found.parameters]
    values = [f"{name}={_text(each)}" for name, each in zip(free, call.args[first:], strict=False)]
    values += [_text(each) for each in call.keywords]
    return f"step({', '.join([_text(component), *values])})"


def _nodes(frame: FrameType) -> Iterator[ast.AST]:
    """Those of the function that the frame runs."""
    code = frame.f_code
    text = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    node = functions_in(text).get((code.co_name, code.co_firstlineno))
    return iter(()) if node is None else ast.walk(node)


def _component(frame: FrameType, call: ast.Call) -> bool:
    return isinstance(_value(frame, call.func), Component)


def _value(frame: FrameType, node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute) and isinstance(module := _value(frame, node.value), ModuleType):
        return vars(module).get(node.attr)
    return None


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."
