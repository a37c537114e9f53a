"""Find a plug-in by the name of its file: `strategies/ddp.py` is the strategy `ddp`. It is imported when asked for."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name

_PACKAGE = Path(__file__).parents[1]
# In which room of the package the folder of a family lies.
_ROOMS = {
    **dict.fromkeys(("estimators", "readers", "recipes", "strategies"), "training_scripts"),
    **dict.fromkeys(("launchers", "platforms"), "training/launch"),
    "metrics": "training",
    "health/rules": "training",
    "serving/raw": "training",
}


def names(family: str) -> list[str]:
    """The plug-ins of a family, by file name, sorted."""
    return list(_names(family))


@cache
def _names(family: str) -> list[str]:
    folder = _PACKAGE / _ROOMS[family] / family
    return sorted(file.stem for file in folder.glob("*.py") if not file.stem.startswith("_"))


def load(family: str, name: str, *, kind: str, own_modules: bool = False) -> ModuleType:
    """Import the plug-in `name` of `family` (`recipes`, `strategies`).

    With `own_modules` a name that the folder lacks is looked up as a module of the user's own (`my_recipes.faces`),
    which travels with their code; it is never one of Python's.

    Raises:
        InputError: no such plug-in, with the closest match; a module of the user's own that cannot be imported, with
            the line. Errors inside a file of the folder are left as they are.
    """
    available = names(family)
    if name in available:
        return importlib.import_module(f"drivetrain.{_ROOMS[family]}.{family}.{name}".replace("/", "."))
    if own_modules and _can_be_a_module(name):
        try:
            return importlib.import_module(name)
        except Exception as error:
            # The module itself, or a package that it lies in, is not there: then it is a typo.
            if not (isinstance(error, ModuleNotFoundError) and _is_part_of(error.name or "", name)):
                raise _not_imported(kind, name, error) from error
    own = "boosted" if family == "estimators" else "faces"
    advice = f"Or name a module of your own, such as my_{family}.{own}." if own_modules else ""
    raise unknown_name(kind, name, available, advice=advice)


def file_of(family: str, name: str, *, kind: str) -> Path:
    """The file of a plug-in.

    Raises:
        InputError: no such plug-in, with the closest match.
    """
    if name not in names(family):
        raise unknown_name(kind, name, names(family))
    return _PACKAGE / _ROOMS[family] / family / f"{name}.py"


def literal(family: str, name: str, what: str, *, kind: str, default: Any = "") -> Any:
    """The value of `WHAT = "..."`, or of another literal, at the head of a plug-in's file, without an import.

    Raises:
        InputError: no such plug-in.
    """
    for node in ast.parse(file_of(family, name, kind=kind).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == what:
            return ast.literal_eval(node.value)
    return default


def of_framework(family: str, framework: str) -> list[str]:
    """The strategies or recipes of a framework; nothing is imported."""
    kind = "strategy" if family == "strategies" else "recipe"
    return [name for name in names(family) if literal(family, name, "FRAMEWORK", kind=kind) == framework]


def recipes_alone(framework: str) -> list[str]:
    """The recipes of a framework that run with their default options; a recipe that starts from a folder of the user's
    (`NEEDS_FOLDER`) does not."""
    named = of_framework("recipes", framework)
    return [name for name in named if not literal("recipes", name, "NEEDS_FOLDER", kind="recipe")]


@cache
def load_framework(name: str) -> Any:
    """The `Framework` in the folder `name` of drivetrain/training, or in a package of that name of one's own.

    Raises:
        InputError: there is no such framework.
    """
    own = _PACKAGE / "training" / name / "framework.py"
    module = f"drivetrain.training.{name}.framework" if own.is_file() else f"{name}.framework"
    try:
        return importlib.import_module(module).Framework()
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if own.is_file() and missing.startswith("drivetrain."):
            raise
        if not _is_part_of(missing, module):
            raise InputError(
                f"framework {name!r} needs {missing}, which is not installed here. Install it, or choose a strategy "
                "of another framework."
            ) from error
        available = [path.parent.name for path in (_PACKAGE / "training").glob("*/framework.py")]
        raise unknown_name("framework", name, available) from None


def forget_current_folder() -> None:
    """Let no name lead to a module below the current folder, where `python -m` looks first.

    For programs that take names from data. In a container the current folder is the one in which all data lies, so a
    model that is called after a file beside it (`processing.input.model.anything`) would bring its own code along. What
    PYTHONPATH names stays: the code of a step is there.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [entry for entry in sys.path if entry and (entry in named or entry != os.getcwd())]


def _can_be_a_module(name: str) -> bool:
    """Return True if it is a dotted name and not one of Python's."""
    return all(part.isidentifier() for part in name.split(".")) and name.split(".")[0] not in sys.stdlib_module_names


def _is_part_of(missing: str, name: str) -> bool:
    return f"{name}.".startswith(f"{missing}.")


def _not_imported(kind: str, name: str, error: Exception) -> InputError:
    """The error for people about a user's own module, with the line in it."""
    reason, where = f"{type(error).__name__}: {error}", ""
    if isinstance(error, SyntaxError) and error.filename:
        reason, where = f"{type(error).__name__}: {error.msg}", _line(error.filename, error.lineno)
    else:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_of_user(frame.filename)]
        where = _line(own[-1].filename, own[-1].lineno) if own else ""
    advice = ""
    if isinstance(error, ModuleNotFoundError):
        advice = (
            " A file of your own has to lie in the folder that goes along (--source); a package has to be installed "
            "where the training runs."
        )
    return InputError(f"{kind} {name!r} cannot be imported: {reason}{where}.{advice}")


def _line(file: str, number: int | None) -> str:
    return f" ({Path(file).name}, line {number})"


def _is_of_user(file: str) -> bool:
    """Return True if a file is neither Python's, nor a library's, nor ours."""
    if file.startswith("<"):
        return False
    if os.path.abspath(file).startswith(f"{_PACKAGE}{os.sep}"):  # not resolved: in a checkout some rooms are links
        return False
    path, paths = os.path.realpath(file), sysconfig.get_paths()
    places = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return not any(path.startswith(os.path.realpath(place) + os.sep) for place in places)
