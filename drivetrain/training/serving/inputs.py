"""The inputs of a model: its columns, and what a request may hold in their place."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.model_folder import DESCRIPTION_FILE


@dataclass(frozen=True)
class Input:
    """A column: its numpy type, and the shape of a row. None where the training did not say it."""

    name: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Inputs:
    """The columns that a model takes, and what may stand in a request in their place."""

    columns: tuple[Input, ...]
    raw: ModuleType | None = None
    """A module of raw/: `NAMES`, `TYPES`, and `columns(values, options, fitted)`."""
    options: Mapping[str, Any] | None = None
    fitted: Mapping[str, Any] | None = None

    @property
    def fitted_types(self) -> dict[str, str]:
        """Column -> the type that it had in the training data, of those that are changed as they were there."""
        return {name: state["type"] for name, state in (self.fitted or {}).get("columns", {}).items()}

    @property
    def imputed(self) -> frozenset[str]:
        """Columns whose value a request may lack: the training learnt a replacement, or what its absence means."""
        columns = (self.fitted or {}).get("columns", {})
        learnt = (name for name, state in columns.items() if any("impute" in each for each in state["changes"]))
        return frozenset((*learnt, *self.missing))

    @property
    def texts(self) -> frozenset[str]:
        """Columns of prepared data that hold texts, whose cells may look like numbers."""
        texts = (each.name for each in self.columns if each.dtype is not None and each.dtype.kind == "O")
        return frozenset(texts if self.raw is not None and not self.raw.NAMES else ())

    @property
    def missing(self) -> frozenset[str]:
        """Columns whose missing values the model reads as they are: NaN, and None among texts."""
        return frozenset((self.options or {}).get("missing", ()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def description_of(folder: Path) -> dict[str, Any]:
    """model.json.

    Raises:
        InputError: it is not there, or no JSON object.
    """
    path = folder / DESCRIPTION_FILE
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}).") from None
    if not isinstance(description, dict):
        raise InputError(f"{path} does not describe a model.")
    return description


def inputs_of(description: Mapping[str, Any]) -> Inputs:
    """The inputs of the described model."""
    described = description.get("inputs", {})
    columns = tuple(
        Input(each["name"], np.dtype(each["dtype"]), tuple(each["shape"])) for each in described.get("columns", ())
    )
    columns = columns or tuple(Input(name) for name in description.get("columns", ()))
    raw, reader = None, described.get("reader")
    if reader in plugins.names("serving/raw"):
        raw = importlib.import_module(f"{__package__}.raw.{reader}")
    return Inputs(columns, raw, described.get("options", {}), description.get("data", {}).get("fitted", {}))
