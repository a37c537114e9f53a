"""A model folder as something that answers: columns in, probabilities and answers out."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.metric import Task
from drivetrain.training.model_folder import DESCRIPTION_FILE
from drivetrain.training.outputs import Answers, answers_of, task_of
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Recipe, unlabelled_batch
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training.torch.precision import precision_of
from drivetrain.training.torch.values import Values

# Rows of a forward pass: those that evaluate and batch_predict take by default, so that the answers are theirs, bit for
# bit.
BATCH_SIZE = 256


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
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class Predictions:
    """Answers for n rows. `predicted`: [n] or [n, ...]; `scores`: float64 [n] (binary: of class 1), [n, C], or None."""

    task: Task
    predicted: NDArray[Any]
    scores: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.predicted)


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
    """What the model of a description takes."""
    described = description.get("inputs", {})
    columns = tuple(
        Input(each["name"], np.dtype(each["dtype"]), tuple(each["shape"])) for each in described.get("columns", ())
    )
    columns = columns or tuple(Input(name) for name in description.get("columns", ()))
    raw, reader = None, described.get("reader")
    if reader in plugins.names("serving/raw"):
        raw = importlib.import_module(f"{__package__}.raw.{reader}")
    return Inputs(columns, raw, described.get("options", {}), description.get("data", {}).get("fitted", {}))


@dataclass(frozen=True)
class ServedModel:
    """A model in eval mode on its device."""

    recipe: Recipe
    model: nn.Module
    task: Task
    inputs: Inputs
    device: torch.device

    @classmethod
    def load(cls, folder: Path, device: torch.device | None = None) -> ServedModel:
        """
        Raises:
            InputError: no model folder, or one whose weights are damaged or of another model.
        """
        recipe, model, description = load_model(folder)
        if device is None:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # As evaluate and batch_predict compute: by themselves GPUs would round convolutions more coarsely.
        precision_of("fp64" if next(model.parameters()).dtype == torch.float64 else "fp32").set_up()
        return cls(recipe, model.to(device).eval(), task_of(recipe), inputs_of(description), device)

    def predict(self, columns: Columns) -> Predictions:
        """
        Args:
            columns: arrays of shape [rows, ...], of the types that the training data had.

        Raises:
            InputError: the recipe or the model does not take them.
        """
        num_rows = len(next(iter(columns.values())))
        parts = [self.answers({name: values[rows] for name, values in columns.items()}) for rows in _slices(num_rows)]
        scores = [part.scores for part in parts if part.scores is not None]
        predicted = np.concatenate([part.predicted for part in parts])
        return Predictions(self.task, predicted, np.concatenate(scores) if scores else None)

    def answers(self, columns: Columns) -> Predictions:
        """As `predict`, in one forward pass."""
        dtype = next(self.model.parameters()).dtype
        try:
            batch = unlabelled_batch(self.recipe, columns).to(self.device, dtype)
            with torch.no_grad():
                outputs = self.model(batch.inputs)
        except InputError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            shapes = ", ".join(f"{name} {list(values.shape[1:])}" for name, values in list(columns.items())[:5])
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"the model does not take rows of this shape ({shapes} a row): {reason:.300}") from None
        return predictions_of(Values(), self.recipe, self.task, outputs)


def predictions_of(framework: Values, recipe: Recipe, task: Task, outputs: Any) -> Predictions:
    """Outputs of a forward pass as answers. Of tokens the likeliest one a position; where nothing is known of them (a
    task of values), the outputs themselves."""
    answers: Answers = answers_of(framework, recipe, task, outputs)
    predicted = answers.predicted
    if predicted is None:
        numbers = framework.array(outputs)
        predicted = numbers.argmax(axis=-1) if task.kind == "tokens" else numbers.astype(np.float64)
    return Predictions(task, predicted, answers.scores)


def _slices(num_rows: int) -> Iterator[slice]:
    return (slice(start, start + BATCH_SIZE) for start in range(0, num_rows, BATCH_SIZE))
