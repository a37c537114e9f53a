"""Names, comments and the docstring of a script, by the places where its steps and parameters are made."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.targets.written.names import Hints

Places = Mapping[str, Sequence[tuple[str, int]]]
"""Step, parameter or pipeline -> files and lines of the script that make it, innermost first."""
_BY_THE_SDK = "-RepackModel-"
_BODIES = ("body", "orelse", "finalbody")


def hints(places: Places, script: Path, pipeline: str) -> Hints:
    """The names and comments of a pipeline's steps and parameters."""
    source = cache(_Source)
    found = {
        name: [(source(file), made) for file, line in listed if (made := source(file).at.get(line))]
        for name, listed in places.items()
        if _BY_THE_SDK not in name
    }
    makes = Counter(made for listed in found.values() for _, made in listed)
    names, comments = dict[str, str](), dict[str, str]()
    for name, listed in found.items():
        alone = [(file, made) for file, made in listed if makes[made] == 1]
        if variable := next(filter(None, (_variable(made) for _, made in alone)), ""):
            names[name] = variable
        if comment := next(filter(None, (file.comment(made, makes) for file, made in alone)), ""):
            comments[name] = comment
    file, line = next(iter(places.get(pipeline, ())), (str(script), 0))
    return Hints(names, comments, source(file).docstring(line) or source(str(script)).docstring(0))


class _Source:
    """A file of the script; its statements by their lines."""

    def __init__(self, file: str) -> None:
        with tokenize.open(file) as opened:
            text = opened.read()
        self.lines, self.tree = text.splitlines(), ast.Module([], [])
        with suppress(SyntaxError):  # that of a newer Python
            self.tree = ast.parse(text)
        self.at: dict[int, ast.stmt] = {}
        self.before: dict[ast.stmt, list[ast.stmt]] = {}
        """Statement -> those before it in its block."""
        for node in ast.walk(self.tree):  # outer ones first
            if isinstance(node, ast.stmt):
                self.at |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node)
            bodies: list[Any] = [getattr(node, name, None) for name in _BODIES]
            for body in filter(lambda each: isinstance(each, list), bodies):
                self.before |= {each: body[:n] for n, each in enumerate(body)}

    def comment(self, statement: ast.stmt, makes: Mapping[ast.stmt, int]) -> str:
        """The comments above a statement, and above those before it that make what it takes."""
        found, taken = self._above(statement), _names(statement, ast.Load)
        for each in reversed(self.before[statement]):
            if makes.get(each):  # what is above belongs to another step
                break
            if taken & _names(each, ast.Store):
                found, taken = [*self._above(each), *found], taken | _names(each, ast.Load)
        return "\n".join(found)

    def docstring(self, line: int) -> str:
        """That of the function around a line, or of the file."""
        around = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        return ast.get_docstring(around[-1] if around else self.tree) or ""

    def _above(self, statement: ast.stmt) -> list[str]:
        found: list[str] = []
        for line in reversed(self.lines[: statement.lineno - 1]):
            if not line.lstrip().startswith("#"):
                break
            found.insert(0, line.strip("# \t"))
        return [text for text in found if text]


def _variable(statement: ast.stmt) -> str:
    """The name that a call's result gets."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    is_call = isinstance(getattr(statement, "value", None), ast.Call)
    return targets[0].id if is_call and len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
