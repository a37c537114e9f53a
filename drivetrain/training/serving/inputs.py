"""The inputs of a model: its columns, and what a request may hold in their place."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.training import plugins
from drivetrain.training.model_folder import no_description, read_description


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


def inputs_of(folder: Path, description: Mapping[str, Any] | None = None) -> Inputs:
    """The inputs of a model.

    Args:
        description: its model.json, if that was read.

    Raises:
        InputError: its model.json is not there, or damaged.
    """
    described = read_description(folder) if description is None else description
    inputs, reader = described.get("inputs", {}), described.get("inputs", {}).get("reader")
    try:
        columns = tuple(
            Input(each["name"], np.dtype(each["dtype"]), tuple(each["shape"])) for each in inputs.get("columns", ())
        )
    except (KeyError, TypeError) as error:
        raise no_description(folder, error) from None
    columns = columns or tuple(Input(name) for name in described.get("columns", ()))
    raw = None
    if reader in plugins.names("serving/raw"):
        raw = importlib.import_module(f"{__package__}.raw.{reader}")
    return Inputs(columns, raw, inputs.get("options", {}), described.get("data", {}).get("fitted", {}))
