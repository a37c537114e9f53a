"""Make a model folder's code/: the entry point, and the modules that loading and predicting needs.

    code/inference.py                              what a server imports (serving/inference.py)
    code/modules/drivetrain/training/...           ours
    code/modules/my_recipes/faces.py               the user's own recipe, and what it imports of its own folder tree
    code/own/answer.py                             the user's own module that answers, and what it imports there

Imports are read from the files and nothing is imported for it: the same files give the same texts. The imports of a
recipe, or of a module that answers, are followed wherever they stand; of our other modules those at the top count, and
what they import in a function is for training. A module that is imported by a computed name is not seen; nor is a file
that is no module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from drivetrain.training import plugins
from drivetrain.training.model_folder import OWN
from drivetrain.training.recipe import Recipe

PACKAGE = "drivetrain"
ENTRY = "inference.py"
MODULES = "modules"
SERVING = f"{PACKAGE}.training.serving"
ENTRY_MODULE = f"{SERVING}.inference"
# It imports them by computed names; beside them what answers, by the model's framework.
ENTRY_IMPORTS = ("inputs", "request", "response", "command")
RAW = f"{SERVING}.raw"
RECIPES = f"{PACKAGE}.training_scripts.recipes"
# In place of the authors' names.
_OUR_ROOT = '"""The parts of drivetrain that this model needs."""\n'
_LIBRARIES = ("site-packages", "dist-packages")
_OURS = Path(__file__).parents[2]


def code_of(recipe: Recipe, reader: str, served: str = "model") -> dict[str, str]:
    """The files of code/: name -> text.

    Args:
        served: the module of serving/ whose ServedModel answers.
        reader: the reader of the training data by its name; what turns requests into its columns goes along.
    """
    module = type(recipe).__module__
    return dict(_code_of(module, reader, served, _root(module)))


def code_of_answers(module: str, reader: str, source: Path) -> dict[str, str]:
    """The files of code/ of a model of functions: name -> text.

    Args:
        module: the module that answers: a file in `source`, or an estimator of ours.
        reader: as in `code_of`.
    """
    only = module.partition(".")[0] if source.name in _LIBRARIES else ""
    return dict(_code_of(module, reader, "functions", None if _is_ours(module) else _Root(source.resolve(), only)))


@cache
def _code_of(own: str, reader: str, served: str, root: _Root | None) -> dict[str, str]:
    """
    Args:
        own: the recipe's module, or the one that answers.
    """
    answers = served == "functions"
    roots = [ENTRY_MODULE, *(f"{SERVING}.{name}" for name in (served, *ENTRY_IMPORTS)), own]
    roots += [] if answers else [RECIPES]
    if reader in plugins.names("serving/raw"):
        roots.append(f"{RAW}.{reader}")
    files: dict[str, Path] = {}
    ahead = [(name, name == own) for name in roots]
    while ahead:
        name, of_own = ahead.pop()
        path = None if name in files else _file_of(name, root)
        if path is None:
            continue
        files[name] = path
        # A module needs the packages around it.
        ahead += [(above, of_own and not _is_ours(name)) for above in _packages(name)]
        everywhere = of_own and (name == own or not _is_ours(name))
        ahead += [(each, of_own) for each in _imports(name, path, everywhere=everywhere)]
    texts = {f"{MODULES}/drivetrain/__init__.py": _OUR_ROOT}
    for name, path in files.items():
        text = path.read_bytes().decode("utf-8")
        folder = OWN if answers and not _is_ours(name) else MODULES
        texts[ENTRY if name == ENTRY_MODULE else _place(folder, name, path)] = text
    return dict(sorted(texts.items()))


def _is_ours(name: str) -> bool:
    return f"{name}.".startswith(f"{PACKAGE}.")


class _Root(NamedTuple):
    """The folder from which the user's recipe was imported. Where packages are installed, only what has the same first
    name is the user's: the rest are libraries."""

    folder: Path
    only: str


def _root(module: str) -> _Root | None:
    """None for a recipe of ours."""
    if _is_ours(module):
        return None
    file = sys.modules[module].__file__
    assert file is not None  # recipes are found by file name
    # `my_recipes.faces` in /code/my_recipes/faces.py: /code
    folder = Path(file).resolve().parents[module.count(".") + (Path(file).name == "__init__.py")]
    return _Root(folder, module.partition(".")[0] if folder.name in _LIBRARIES else "")


def _file_of(name: str, root: _Root | None) -> Path | None:
    """The file of a module, where it is one that goes along."""
    parts = name.split(".")
    if name == PACKAGE:
        return None
    if _is_ours(name):
        place, parts = _OURS, parts[1:]
    elif root is None or parts[0] in sys.stdlib_module_names:
        return None
    else:
        place = root.folder
        if root.only and parts[0] != root.only:
            return None
    path = place.joinpath(*parts)
    files = (path / "__init__.py", *([path.with_name(f"{path.name}.py")] if parts else []))
    return next((file for file in files if file.is_file()), None)


def _packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:number]) for number in range(1, len(parts)))


def _place(folder: str, name: str, path: Path) -> str:
    inside = f"{folder}/{name.replace('.', '/')}"
    return f"{inside}/__init__.py" if path.name == "__init__.py" else f"{inside}.py"


def _imports(name: str, path: Path, *, everywhere: bool) -> Iterator[str]:
    """The names that a module's file imports; some may be no modules."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # the process that imports it reports the error
        return
    for node in _statements(tree, everywhere=everywhere):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _statements(node: ast.AST, *, everywhere: bool) -> Iterator[ast.AST]:
    """The statements that run when a module is imported (`everywhere`: and when its functions are called), type
    checking left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from _statements(other, everywhere=everywhere)
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not everywhere:
            continue
        yield child
        yield from _statements(child, everywhere=everywhere)
