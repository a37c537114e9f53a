"""Calls in a pipeline's function that were meant for `step`, found in the text of the user's file."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

from drivetrain.base.call_site import functions_in, is_users_file
from drivetrain.steps.declaration import Component

_CHARACTERS = 120


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
