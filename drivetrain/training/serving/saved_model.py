"""A model folder of TensorFlow's as something that answers: columns in, probabilities and answers out.

What computes is the SavedModel in the folder: in this process, or in TensorFlow Serving beside it, which is asked over
its REST API. For the latter neither TensorFlow nor Keras is imported, where the recipe's file does not import them at
its top. https://www.tensorflow.org/tfx/serving/api_rest
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.model_folder import no_description, read_description
from drivetrain.training.outputs import task_of
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Recipe, load_recipe, unlabelled_batch
from drivetrain.training.serving.inputs import Inputs, inputs_of
from drivetrain.training.serving.predictions import Answering, Predictions, predictions_of
from drivetrain.training.task import Task
from drivetrain.training.tensorflow.values import Values, in_format
from drivetrain.training.trees import Tree

# TensorFlow Serving serves versions, which are numbers.
SAVED_MODEL = Path("saved_model", "1")
SIGNATURE, INPUTS, OUTPUTS = "serving_default", "inputs", "outputs"
_SECONDS = 60.0
_PLACE = re.compile(r"(inputs|outputs)_\d+")

Array = NDArray[Any]
Compute = Callable[[Tree], Tree]


@dataclass(frozen=True)
class ServedModel(Answering):
    """`compute` gives the outputs of inputs, each an array of shape [rows, ...] or a dict or tuple of such; `precision`
    is that of the parameters."""

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
        description = read_description(folder)
        try:
            recipe = load_recipe(description["recipe"], description["recipe_options"])
            precision = "float64" if description["precision"] == "fp64" else "float32"
        except (KeyError, TypeError) as error:
            raise no_description(folder, error) from None
        compute = _in_serving(serving, precision) if serving else _in_this_process(folder)
        return cls(recipe, task_of(recipe, description), inputs_of(folder, description), precision, compute)

    def answers(self, columns: Columns) -> Predictions:
        """The answers for these rows, in one forward pass."""
        inputs: Any = in_format(unlabelled_batch(self.recipe, columns), self.precision).inputs
        return predictions_of(Values(), self.recipe, self.task, self.compute(inputs))


def named(tree: Tree, name: str) -> dict[str, Any]:
    """A tree's tensors by their names in the signature: one tensor is `name`, a dict's have its keys, a tuple's are
    `name_0`, `name_1`, ...

    Raises:
        InputError: a deeper tree, or keys that a signature cannot have.
    """
    if trees.is_tensor(tree):
        return {name: tree}
    parts = tree if isinstance(tree, dict) else {f"{name}_{number}": part for number, part in enumerate(tree)}
    if all(trees.is_tensor(part) for part in parts.values()):
        if not isinstance(tree, dict):
            return parts
        if all(str(key).isidentifier() and not _PLACE.fullmatch(str(key)) for key in parts) and name not in parts:
            return parts
    raise InputError(
        "a signature has one tensor, a tuple of them, or a dict of them with names such as input_ids; these "
        f"{name} are {trees.described(tree)}"
    )


def unnamed(found: Mapping[str, Array], name: str) -> Tree:
    """The tree that `named` has named."""
    if name in found:
        return found[name]
    if all(_PLACE.fullmatch(key) for key in found):
        return tuple(found[f"{name}_{number}"] for number in range(len(found)))
    return dict(found)


def _in_this_process(folder: Path) -> Compute:
    if not (folder / SAVED_MODEL / "saved_model.pb").is_file():
        raise InputError(f"{folder} has no {SAVED_MODEL}: its training could not export it. Its log says why.")
    # Before it is imported: oneDNN's kernels add up in other orders than those that evaluate has used.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

    loaded: Any = tf.saved_model.load(str(folder / SAVED_MODEL))
    signature = loaded.signatures[SIGNATURE]

    def compute(inputs: Tree) -> Tree:
        given = {name: tf.constant(values) for name, values in named(inputs, INPUTS).items()}
        try:
            return unnamed({name: found.numpy() for name, found in signature(**given).items()}, OUTPUTS)
        except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            raise _not_taken(inputs, str(error)) from None

    # (Variables live as long as what they were loaded with.)
    signature.loaded = loaded
    return compute


def _in_serving(uri: str, precision: str) -> Compute:
    """Compute by TensorFlow Serving's predict API."""

    def compute(inputs: Tree) -> Tree:
        rows = {name: values.tolist() for name, values in named(inputs, INPUTS).items()}
        several = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
        instances = rows[INPUTS] if trees.is_tensor(inputs) else several
        body = json.dumps({"signature_name": SIGNATURE, "instances": instances}).encode()
        request = urllib.request.Request(uri, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                predictions = json.load(answer)["predictions"]
        except urllib.error.HTTPError as error:
            raise _not_taken(inputs, error.read().decode("utf-8", "replace")) from None
        if not isinstance(predictions[0], dict):
            return np.asarray(predictions, precision)
        found = {name: np.asarray([row[name] for row in predictions]) for name in predictions[0]}
        kinds = {name: precision if values.dtype.kind == "f" else values.dtype for name, values in found.items()}
        return unnamed({name: values.astype(kinds[name]) for name, values in found.items()}, OUTPUTS)

    return compute


def _not_taken(inputs: Tree, reason: str) -> InputError:
    first = (reason.strip().splitlines() or [""])[0]
    shapes = trees.described(trees.mapped(lambda values: values[:1], inputs))
    return InputError(f"the model does not take a row of shape {shapes}: {first:.300}")
