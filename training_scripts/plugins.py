"""Find a plug-in by the name of its file: `strategies/ddp.py` is the strategy `ddp`. It is imported when asked for."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from drivetrain.training_scripts.errors import unknown_name


def names(family: str) -> list[str]:
    """The plug-ins of a folder of training_scripts, by file name, sorted."""
    folder = Path(__file__).parent / family
    return sorted(file.stem for file in folder.glob("*.py") if not file.stem.startswith("_"))


def load(family: str, name: str, *, kind: str, own_modules: bool = False) -> ModuleType:
    """Import the plug-in `name` of `family` (`recipes`, `strategies`).

    With `own_modules` a name that the folder lacks is looked up as a module of the user's own (`my_recipes.faces`),
    which travels with their code; it is never one of Python's.

    Raises:
        InputError: no such plug-in, with the closest match. Errors inside the plug-in's file are left as they are.
    """
    available = names(family)
    if name in available:
        return importlib.import_module(f"drivetrain.training_scripts.{family}.{name}")
    if own_modules and _is_module(name):
        return importlib.import_module(name)
    advice = "Or name a module of your own, such as my_recipes.faces." if own_modules else ""
    raise unknown_name(kind, name, available, advice=advice)


def forget_current_folder() -> None:
    """Let no name lead to a module below the current folder, where `python -m` looks first.

    For programs that take names from data. In a container the current folder is the one in which all data lies, so a
    model that is called after a file beside it (`processing.input.model.anything`) would bring its own code along. What
    PYTHONPATH names stays: the code of a step is there.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [entry for entry in sys.path if entry and (entry in named or entry != os.getcwd())]


def _is_module(name: str) -> bool:
    if not all(part.isidentifier() for part in name.split(".")) or name.partition(".")[0] in sys.stdlib_module_names:
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the part before the last dot does not exist
        return False
