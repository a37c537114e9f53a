"""Components that a notebook's cells define: a module is written of each, with all that it uses of other cells.

A program is found in a container by the name of its module, and a cell has none. So its source travels in a module
that is named by its own hash: the same cells make the same code, and a cell that is run again without a change hits
the cache.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from drivetrain.authoring.cell_sources import made_once, own_modules, source_of
from drivetrain.base.errors import SpecError, shown
from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import JobStep, flatten
from drivetrain.steps.declaration import Component

CELLS = "__main__"
PREFIX = "cells_"
MOST_CHARACTERS = 10_000
"""The longest text of a value that travels as a literal."""
_PLAIN = (str, int, float, bool, bytes, type(None))

# Module -> its text, of the components that steps were made of in this process; and the modules that it imports from
# the user's own files.
_MODULES: dict[str, str] = {}
_IMPORTED: dict[str, dict[str, Path]] = {}


def target_of(component: Component[..., Any]) -> str:
    """`module:function`, under which the program of a component is found in the container.

    Raises:
        SpecError: a cell uses what cannot travel, or has no source.
    """
    function = component.function
    if not isinstance(function, FunctionType) or function.__module__ != CELLS or component.file.exists():
        return component.target
    writer = _Writer(function)
    text = writer.module()
    name = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]
    _MODULES[name] = text
    _IMPORTED[name] = own_modules(text, function.__name__)
    return f"{name}:{function.__name__}"


def write_modules(pipeline: Pipeline, folder: Path) -> None:
    """Write the modules of a pipeline's components that have no travelling folder: modules of cells, the user's own
    modules, and the modules that these import."""
    programs = [step.program for step in flatten(pipeline.steps) if isinstance(step, JobStep)]
    for target in sorted({program.target for program in programs if program.kind == "component"}):
        name, _, function = target.partition(":")
        if name in _MODULES:
            (folder / f"{name}.py").write_text(_MODULES[name], encoding="utf-8")
        own = _IMPORTED[name] if name in _MODULES else own_modules(f"import {name}", function)
        for place, file in own.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_bytes(file.read_bytes())


class _Writer:
    """Collects what a function uses, in an order in which Python can run it."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.imports: set[str] = set()
        self.values: list[str] = []
        self.definitions: list[str] = []
        self.seen: set[str] = set()

    def module(self) -> str:
        self.define(self.function.__name__, self.function)
        parts = ["\n".join(sorted(self.imports)), "\n".join(self.values), *self.definitions]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def define(self, name: str, thing: Any) -> None:
        """Take a function or class of a cell, after what it uses."""
        self.seen.add(name)
        thing = inspect.unwrap(thing)  # decorators stand in its text
        if isinstance(thing, FunctionType) and thing.__closure__:
            raise self.refused(name, "it is made inside of another function. Define it in a cell of its own.")
        text = self.source(name, thing)
        self.refuse_changed(name, thing, text)
        known = self.function.__globals__
        for used in _used(text):
            # A name of a builtin is taken where a cell has given it another meaning.
            if used not in self.seen and used in known and known[used] is not getattr(builtins, used, self):
                self.take(used, known[used])
        self.imports |= set(_submodules(text, self.function.__globals__))
        self.definitions.append(text)

    def source(self, name: str, thing: Any) -> str:
        found = source_of(thing)
        if found is not None:
            return found
        if not isinstance(thing, type) and thing.__code__.co_filename.startswith(("<timed", "<magic")):
            raise self.refused(
                name, "its cell has a magic such as %%time, which hides its source. Take that line out of the cell."
            )
        raise self.refused(name, "its source is not known. Write it to a file, and import it.")

    def refuse_changed(self, name: str, thing: Any, text: str) -> None:
        """
        Raises:
            SpecError: a default, or a value in a class, was made of what another cell has changed since: the program
                would have another one than the cell.
        """
        for what, expression, value in made_once(thing, text):
            try:
                names = dict(vars(thing)) if isinstance(thing, type) else {}
                now = eval(compile(ast.Expression(expression), "<cell>", "eval"), self.function.__globals__, names)
                # A class may make something else of what is written in it: an Enum does.
                same = bool(now is value or now == value or (names and type(now) is not type(value)))
            except Exception:  # what it was made of is gone, or cannot be compared: then it cannot be told
                continue
            if not same:
                raise self.refused(
                    name,
                    f"{what} was {shown(value)} when its cell ran, and {ast.unparse(expression)} is {shown(now)} now. "
                    f"Run the cell of {name} again.",
                )

    def take(self, name: str, value: Any) -> None:
        """Take what a name stands for: as an import, a literal, or by its source."""
        self.seen.add(name)
        inner = value.function if isinstance(value, Component) else value
        if isinstance(value, ModuleType):
            self.imports.add(_as(f"import {value.__name__}", value.__name__, name))
        elif getattr(inner, "__module__", None) == CELLS and isinstance(inspect.unwrap(inner), FunctionType | type):
            own = inner.__name__
            if own != name and self.function.__globals__.get(own) is not value:
                raise self.refused(
                    name, f"it is a function {own}() that is called otherwise now. Define it by its name."
                )
            if own == name or own not in self.seen:
                self.define(own, inner)
            if own != name:
                self.definitions.append(f"{name} = {own}")
        elif (found := _importable(name, value)) is not None:
            self.imports.add(found)
        elif _is_literal(value):
            self.values.append(f"{name} = {value!r}")
        else:
            raise self.refused(
                name,
                f"it is {shown(value)}, which cannot travel with the code. Make it inside of the function, or write "
                "it to a file and give that as an input.",
            )

    def refused(self, name: str, why: str) -> SpecError:
        own = self.function.__name__
        what = "" if name == own else f" {own}() uses {name!r} of another cell:"
        return SpecError(f"step({own}):{what} {why}")


def _used(text: str) -> Iterator[str]:
    """The global names that a definition uses, decorators, defaults and annotations among them."""
    top = symtable.symtable(text, "<cell>", "exec")
    pending = [top]
    names: dict[str, None] = {}
    while pending:
        table = pending.pop(0)
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or table is top):
                names[symbol.get_name()] = None
        pending += table.get_children()
    return iter(names)


def _submodules(text: str, known: dict[str, Any]) -> Iterator[str]:
    """Imports of modules that are reached through another: `xml.dom` of `import xml.dom`."""
    for node in ast.walk(ast.parse(text)):
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and isinstance(module := known.get(inner.id), ModuleType):
            for length in range(1, len(parts) + 1):
                dotted = ".".join((module.__name__, *parts[:length]))
                if dotted in sys.modules:
                    yield f"import {dotted}"


def _importable(name: str, value: Any) -> str | None:
    """The line that imports a value from its module; None if it cannot be imported."""
    own = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = sys.modules.get(str(getattr(value, "__module__", None)))
    if module is not None and module.__name__ == CELLS:
        return None
    if module is not None and isinstance(own, str) and getattr(module, own, None) is value:
        return _as(f"from {module.__name__} import {own}", own, name)
    if isinstance(value, _PLAIN):
        return None  # equal ones are one object in many modules
    modules = [each for each in sorted(sys.modules) if each != CELLS and not each.rpartition(".")[2].startswith("_")]
    for each in sorted(modules, key=len):
        # Not every entry is a module: libraries put stand-ins there.
        if getattr(sys.modules[each], "__dict__", {}).get(name) is value:
            return f"from {each} import {name}"
    return None


def _as(line: str, name: str, called: str) -> str:
    return line if name == called else f"{line} as {called}"


def _is_literal(value: Any) -> bool:
    try:
        text = repr(value)
        return len(text) <= MOST_CHARACTERS and bool(ast.literal_eval(text) == value)
    except Exception:  # whatever a foreign __repr__ or __eq__ does: then it is no literal
        return False
