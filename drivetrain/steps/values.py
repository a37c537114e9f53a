"""A Python value on its way from one step to the next: a pickle in a folder.

    @component
    def load() -> Value: ...

    @component
    def train(data: Value, trees: int = 100) -> Value: ...

A step unpickles only what another step of the pipeline wrote, or what its author named as an input: like the steps'
code, it must come from a place that one trusts.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError

FILE = "value.pickle"


def save(value: Any, folder: Path, who: str) -> None:
    """Write a value into an existing folder.

    Raises:
        InputError: pickle cannot write it; `who` names the step that returned it.
    """
    try:
        with open(folder / FILE, "wb") as file:
            pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"{who} returned a {type(value).__name__} that cannot be pickled: {error}. Return plain data, or write "
            "files into an Output."
        ) from None


def load(folder: Path, where: str) -> Any:
    """The value in a folder, or in the file itself.

    Raises:
        InputError: there is no value, or it cannot be read here; `where` names the input.
    """
    path = folder / FILE if folder.is_dir() else folder
    if not path.is_file():
        raise InputError(f"{where} {folder}: no {FILE} there. Give the output of a step that returns a Value.")
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except (pickle.UnpicklingError, EOFError, ImportError, AttributeError) as error:
        raise InputError(
            f"{where} {path} cannot be read: {error}. The step that wrote it and this one need the same libraries."
        ) from None
