"""Find the sources of what a cell uses: the text of a function or class, and the files of modules beside a notebook."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import inspect
import linecache
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import drivetrain
from drivetrain.base.errors import SpecError
from drivetrain.steps.trainings import imports_of

# The name that IPython gives to the code of a cell under %%time, whose text it keeps with the cell.
TIMED = "<timed exec>"


def source_of(thing: FunctionType | type) -> str | None:
    """The text of a function or class that a cell defines; None where it is not known."""
    if isinstance(thing, type):
        return next(_written_in_cells(thing.__name__, ast.ClassDef), None)
    if thing.__code__.co_filename == TIMED:
        first = thing.__code__.co_firstlineno
        return next(_written_in_cells(thing.__name__, ast.FunctionDef, first), None)
    try:
        return textwrap.dedent(inspect.getsource(thing)).rstrip()
    except OSError:
        return None


def _written_in_cells(
    name: str, kind: type[ast.ClassDef] | type[ast.FunctionDef], first_line: int | None = None
) -> Iterator[str]:
    """The texts of the definitions of a name, of the last cell first; `inspect` finds those of files alone."""
    for file in reversed(list(linecache.cache)):
        whole = "".join(linecache.getlines(file))
        if Path(file).exists() or name not in whole:
            continue
        for text in _bodies(whole):
            for node in _parsed(text):
                if not isinstance(node, kind) or node.name != name:
                    continue
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if first_line in (None, first):
                    yield "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _bodies(text: str) -> Iterator[str]:
    """A cell's text, and what stands below a magic of it: `get_ipython().run_cell_magic('time', '', 'BODY')`."""
    yield text
    for node in _parsed(text):
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "run_cell_magic":
            body = call.args[-1]
            if isinstance(body, ast.Constant) and isinstance(body.value, str):
                yield body.value


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:
        return []  # a cell that did not run either


def made_once(thing: Any, text: str) -> Iterator[tuple[str, ast.expr, Any]]:
    """The values that a definition worked out when its cell ran, as (what it is, its expression, its value): the
    defaults of a function, the values of a class. Expressions with calls are left out: they may give something else
    each time."""
    node = _parsed(text)[0]
    if isinstance(node, ast.ClassDef):
        for line in node.body:
            target = line.target if isinstance(line, ast.AnnAssign) else None
            targets = line.targets if isinstance(line, ast.Assign) else [] if target is None else [target]
            value: ast.expr | None = getattr(line, "value", None)
            for one in targets:
                if value is not None and isinstance(one, ast.Name) and one.id in vars(thing) and _is_plain(value):
                    yield f"its {one.id}", value, vars(thing)[one.id]
    elif isinstance(node, ast.FunctionDef) and isinstance(thing, FunctionType):
        places = [*node.args.posonlyargs, *node.args.args]
        with_default = places[len(places) - len(node.args.defaults) :]
        defaults = thing.__defaults__ or ()
        for argument, value, default in zip(with_default, node.args.defaults, defaults, strict=False):
            if _is_plain(value):
                yield f"the default of {argument.arg!r}", value, default
        for argument, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if value is not None and _is_plain(value):
                yield f"the default of {argument.arg!r}", value, (thing.__kwdefaults__ or {}).get(argument.arg)


def _is_plain(expression: ast.expr) -> bool:
    """Return True if it reads a name, and gives the same value each time."""
    nodes = list(ast.walk(expression))
    return any(isinstance(n, ast.Name) for n in nodes) and not any(
        isinstance(n, ast.Call | ast.Await | ast.NamedExpr | ast.Lambda) for n in nodes
    )


def own_modules(text: str, function: str) -> dict[str, Path]:
    """The modules of the user's own files that a module's text imports, and those that these import: place below the
    folder that travels -> file. What is installed, or comes with Python, does not travel.

    Raises:
        SpecError: one of them is no Python file.
    """
    found: dict[str, Path] = {}
    pending = sorted(_imported(text.encode()))
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        root = _own_place(name)
        if root is None:
            continue
        if root.is_file() and root.suffix != ".py":
            raise SpecError(
                f"step({function}): it imports {name!r} from {root.name}, which is no Python file and cannot travel "
                "with the code. Install it, and name its distribution in @component(needs=[...])."
            )
        for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            place = file.relative_to(root.parent)
            found[place.as_posix()] = file
            pending += sorted(_imported(file.read_bytes(), ".".join(place.parent.parts)))
    return found


def _imported(source: bytes, package: str = "") -> set[str]:
    """The first names of the modules that a module of `package` imports, also inside of functions."""
    return {name for name in imports_of(package, source) if name and "." not in name}


def _own_place(name: str) -> Path | None:
    """The file of a module of the user's own, or the folder of a package; None of one that is installed, built in or
    not there."""
    if name in sys.builtin_module_names or name in sys.stdlib_module_names or name == drivetrain.__name__:
        return None
    module = sys.modules.get(name)
    spec: importlib.machinery.ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is None:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if spec is None or not (folders or (spec.has_location and spec.origin)):
        return None
    place = Path(folders[0] if folders else str(spec.origin)).resolve()
    installed = [Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")]
    if "site-packages" in place.parts or "dist-packages" in place.parts or any(map(place.is_relative_to, installed)):
        return None
    return place
