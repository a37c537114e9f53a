"""A model folder as something that answers: columns in, probabilities and answers out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.outputs import task_of
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import HasFolder, Recipe, unlabelled_batch
from drivetrain.training.serving.inputs import Inputs, inputs_of
from drivetrain.training.serving.predictions import Answering, Predictions, predictions_of
from drivetrain.training.task import Task
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training.torch.precision import precision_of
from drivetrain.training.torch.values import Values


@dataclass(frozen=True)
class ServedModel(Answering):
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
            InputError: no model folder, or its weights are damaged or of another model.
        """
        recipe, model, description = load_model(folder)
        if device is None:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # As evaluate and batch_predict compute: by themselves GPUs would round convolutions more coarsely.
        precision_of("fp64" if next(model.parameters()).dtype == torch.float64 else "fp32").set_up()
        inputs = inputs_of(folder, description)
        if isinstance(recipe, HasFolder):  # what makes columns of a request lies in the model folder, too
            options: Mapping[str, Any] = getattr(recipe, "reader_options", {})
            inputs = replace(
                inputs, options={**options, **(inputs.options or {}), "tokenizer": options.get("tokenizer")}
            )
        return cls(recipe, model.to(device).eval(), task_of(recipe, description), inputs, device)

    def answers(self, columns: Columns) -> Predictions:
        """The answers for these rows, in one forward pass."""
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
