"""Files beside a pipeline that have the name of another module, so that one of the two is hidden: refused before the
pipeline's file is imported. A file is let pass where nothing shows that anybody imports the module that it hides.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from drivetrain.base.errors import UserError

# Of packages that are imported by another name than that of their distribution.
_DISTRIBUTIONS = {"PIL": "pillow", "dateutil": "python-dateutil", "sklearn": "scikit-learn", "yaml": "pyyaml"}
_OURS = ("boto3", "click", "markdown-it-py", "packaging", "pydantic", "pyyaml")
# What our own components import.
_OF_COMPONENTS = ("numpy", "pyarrow", "safetensors", "torch")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def refuse_hidden(path: Path, names: Iterable[str]) -> None:
    """
    Args:
        path: the pipeline's file, which is not imported yet.
        names: of modules of its folder that are also Python's own, or installed.

    Raises:
        UserError: naming the file that hides a module, or is hidden by one.
    """
    files = {name: file for name in names if name != "drivetrain" and (file := _file(path.parent, name))}
    if not files:
        return
    texts = {file: _parsed(file) for file in sorted(path.parent.glob("*.py"))}
    for name, file in sorted(files.items()):
        shown = file.name if file.name != "__init__.py" else f"{name}/"
        used = {each for other, text in texts.items() if other != file for each in _used(text, name)}
        defined = _defined(file, texts[file] if file in texts else _parsed(file))
        if name in sys.stdlib_module_names:
            place = getattr(sys.modules.get(name), "__file__", None)
            if name in sys.modules and place != str(file) and used & defined:
                raise UserError(
                    f"{shown} beside your pipeline has the name of Python's own module {name}, which is loaded instead "
                    f"(asked for {', '.join(sorted(used & defined))}). Rename {shown}."
                )
        elif _is_installed(name) and ((used - defined and "*" not in defined) or name in _required(path, name, texts)):
            raise UserError(f"{shown} beside your pipeline hides the installed package {name}. Rename {shown}.")


def _file(folder: Path, name: str) -> Path | None:
    return next((file for file in (folder / name / "__init__.py", folder / f"{name}.py") if file.is_file()), None)


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):  # who imports it is told
        return ast.Module([], [])


def _used(tree: ast.Module, name: str) -> Iterator[str]:
    """The names of a module that a file uses."""
    called: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0) if module == name:
                yield from (each.name for each in names if each.name != "*")
            case ast.ImportFrom(module=str(module), level=0) if module.startswith(f"{name}."):
                yield module.split(".")[1]
            case ast.Import(names=names):
                for each in names:
                    if each.name == name:
                        called.add(each.asname or name)
                    elif each.name.startswith(f"{name}."):
                        yield each.name.split(".")[1]
            case _:
                pass
    for node in ast.walk(tree) if called else ():
        match node:
            case ast.Attribute(value=ast.Name(id=known), attr=attr) if known in called:
                yield attr
            case _:
                pass


def _defined(file: Path, tree: ast.Module) -> set[str]:
    """The names that a module defines, or a package with its parts; `*` among them where there may be more."""
    found = {each.stem for each in file.parent.iterdir()} if file.name == "__init__.py" else set[str]()
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name if name != "__getattr__" else "*")
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {each.asname or each.name.partition(".")[0] for each in names}
            case ast.Name(id="globals"):
                found.add("*")
            case _:
                pass
        pending += ast.iter_child_nodes(node)
    return found


def _is_installed(name: str) -> bool:
    try:
        origin = distribution(_DISTRIBUTIONS.get(name, name)).read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    return origin is None  # not from a folder of the user's, an editable installation least of all


def _required(path: Path, hidden: str, texts: dict[Path, ast.Module]) -> set[str]:
    """The packages that are imported: by Drivetrain, by the user's files, and by what those need."""
    imported = {
        module
        for tree in texts.values()
        for node in ast.walk(tree)
        for module in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }
    ours = any(each.startswith(("drivetrain.components.", "drivetrain.training")) for each in imported)
    tops = {each.partition(".")[0] for each in imported} - {hidden, "drivetrain"} - sys.stdlib_module_names
    pending = {*_OURS, *(_OF_COMPONENTS if ours or path.stem == hidden else ())} | {
        _DISTRIBUTIONS.get(each, each) for each in tops
    }
    found: set[str] = set()
    while pending:
        found |= pending
        pending = {each for one in pending for each in _requirements(one)} - found
    return found | {name for name, each in _DISTRIBUTIONS.items() if each in found}


def _requirements(name: str) -> Iterator[str]:
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for line in lines:
        if "extra ==" not in line and (found := _REQUIREMENT.match(line)):
            yield found[0].lower()
