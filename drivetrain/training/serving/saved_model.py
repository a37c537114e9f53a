"""A model folder of TensorFlow's as something that answers: columns in, probabilities and answers out.

What computes is the SavedModel in the folder: in this process, or in TensorFlow Serving beside it, which is asked over
its REST API. For the latter neither TensorFlow nor Keras is imported, where the recipe's file does not import them at
its top. https://www.tensorflow.org/tfx/serving/api_rest
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Task
from drivetrain.training.model_folder import no_description
from drivetrain.training.outputs import task_of
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Recipe, load_recipe, unlabelled_batch
from drivetrain.training.serving.inputs import Inputs, description_of, inputs_of
from drivetrain.training.serving.predictions import Predictions, in_batches, predictions_of
from drivetrain.training.tensorflow.values import Values, in_format

# TensorFlow Serving serves versions, which are numbers.
SAVED_MODEL = Path("saved_model", "1")
SIGNATURE, INPUTS, OUTPUTS = "serving_default", "inputs", "outputs"
_SECONDS = 60.0

Compute = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class ServedModel:
    """`compute` gives the outputs of inputs, both of shape [rows, ...]; `precision` is that of the parameters."""

    recipe: Recipe
    task: Task
    inputs: Inputs
    precision: str
    compute: Compute

    @classmethod
    def load(cls, folder: Path, serving: str = "") -> ServedModel:
        """
        Args:
            serving: where TensorFlow Serving answers for this model; empty: this process computes.

        Raises:
            InputError: no model folder, or one without a SavedModel.
        """
        description = description_of(folder)
        try:
            recipe = load_recipe(description["recipe"], description["recipe_options"])
            precision = "float64" if description["precision"] == "fp64" else "float32"
        except (KeyError, TypeError) as error:
            raise no_description(folder, error) from None
        compute = _in_serving(serving, precision) if serving else _in_this_process(folder)
        return cls(recipe, task_of(recipe), inputs_of(description), precision, compute)

    def predict(self, columns: Columns) -> Predictions:
        """
        Args:
            columns: arrays of shape [rows, ...], of the types that the training data had.

        Raises:
            InputError: the recipe or the model does not take them.
        """
        return in_batches(columns, self.task, self.answers)

    def answers(self, columns: Columns) -> Predictions:
        """As `predict`, in one forward pass."""
        inputs: Any = in_format(unlabelled_batch(self.recipe, columns), self.precision).inputs
        return predictions_of(Values(), self.recipe, self.task, self.compute(inputs))


def _in_this_process(folder: Path) -> Compute:
    if not (folder / SAVED_MODEL / "saved_model.pb").is_file():
        raise InputError(f"{folder} has no {SAVED_MODEL}: its training could not export it. Its log says why.")
    # Before it is imported: oneDNN's kernels add up in other orders than those that evaluate has used.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

    loaded: Any = tf.saved_model.load(str(folder / SAVED_MODEL))
    signature = loaded.signatures[SIGNATURE]

    def compute(inputs: NDArray[Any]) -> NDArray[Any]:
        try:
            return signature(**{INPUTS: tf.constant(inputs)})[OUTPUTS].numpy()
        except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            raise _not_taken(inputs, str(error)) from None

    # (Variables live as long as what they were loaded with.)
    signature.loaded = loaded
    return compute


def _in_serving(uri: str, precision: str) -> Compute:
    """What TensorFlow Serving computes, by its predict API."""

    def compute(inputs: NDArray[Any]) -> NDArray[Any]:
        body = json.dumps({"signature_name": SIGNATURE, "instances": inputs.tolist()}).encode()
        request = urllib.request.Request(uri, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                predictions = json.load(answer)["predictions"]
        except urllib.error.HTTPError as error:
            raise _not_taken(inputs, error.read().decode("utf-8", "replace")) from None
        return np.asarray(predictions, precision)

    return compute


def _not_taken(inputs: NDArray[Any], reason: str) -> InputError:
    first = (reason.strip().splitlines() or [""])[0]
    return InputError(f"the model does not take rows of shape {list(inputs.shape[1:])}: {first:.300}")
