"""The choice of the reader of a folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.options import build_options
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader


def load_reader(
    name: str, folder: Path, options: Mapping[str, Any], process: Process, *, defaults: Mapping[str, Any] | None = None
) -> Reader:
    """The reader `name` of a folder (`auto`: the reader that recognises it).

    Args:
        options: what the user asked for.
        defaults: options that apply where the user says nothing and the format has them.

    Raises:
        InputError: no such reader or option (with the closest match), or a folder that is not of the format.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder. Give the folder of the data.")
    if name == "auto":
        name = recognised(folder)
    module = plugins.load("readers", name, kind="reader", own_modules=True)
    reader: Any = getattr(module, "Reader", None)
    if not isinstance(reader, type) or not dataclasses.is_dataclass(getattr(module, "Options", None)):
        raise InputError(f"reader {name!r} ({module.__file__}) lacks a class Reader or a dataclass Options.")
    fields = {field.name for field in dataclasses.fields(module.Options)}
    given = {key: value for key, value in (defaults or {}).items() if key in fields} | dict(options)
    return reader(folder, build_options(module.Options, given, f"reader {name!r}"), process)


def recognised(folder: Path) -> str:
    """The name of the reader whose format the folder has.

    Raises:
        InputError: none, or several.
    """
    available = plugins.names("readers")
    # A manifest vouches for the folder: nobody else need be asked, or imported.
    if "prepared" in available and plugins.load("readers", "prepared", kind="reader").recognises(folder):
        return "prepared"
    modules = {name: plugins.load("readers", name, kind="reader") for name in available}
    found = [name for name, module in modules.items() if module.recognises(folder)]
    found = [name for name in found if not getattr(modules[name], "FALLBACK", False)] or found
    if not found:
        raise InputError(
            f"{folder} is not prepared data: no manifest.json. Run prepare_data first, or say what it is with "
            f"reader: {', '.join(available)}, or a module of your own."
        )
    if len(found) > 1:
        raise InputError(f"{folder} can be read as {' or as '.join(found)}. Say which with reader.")
    return found[0]
