"""The model folder of a Keras model: written, exported, and loaded; and a start from weights.

    model.safetensors, model.json, code/     as of every framework (drivetrain.training.model_folder)
    model.keras                              Keras's own file, for keras.models.load_model
    saved_model/1/                           a SavedModel: what TensorFlow Serving serves, and code/inference.py calls

No file says when it was written. Layers and functions are named by what a process has made before, so that the bytes
of the two exports, unlike those of the other files, are equal for equal trainings in fresh processes at best.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from drivetrain.base.errors import InputError
from drivetrain.training import model_folder, trees
from drivetrain.training.recipe import Recipe, load_recipe, wrong_answer
from drivetrain.training.serving.saved_model import INPUTS, OUTPUTS, SAVED_MODEL, SIGNATURE, named
from drivetrain.training.tensorflow.precision import precision_of
from drivetrain.training.tensorflow.strategy import variables_of
from drivetrain.training.weights_file import find_weights, unpacked

Array = NDArray[Any]
KERAS_FILE = "model.keras"
# A zip file knows no earlier one.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_GZIP = b"\x1f\x8b"


def build_model(recipe: Recipe) -> Any:
    """A fresh model of the recipe, in fp32: a start is drawn alike for every precision.

    Raises:
        InputError: it returned none, or one without variables to train.
    """
    precision_of("fp32").set_up()
    return _model_of(recipe)


def save_model(folder: Path, weights: Mapping[str, Array], description: Mapping[str, Any]) -> None:
    """Write the model folder (on rank 0), and say what could not be exported; the folder is whole without it."""
    model_folder.write_folder(folder, save({n: np.ascontiguousarray(v) for n, v in weights.items()}), description)
    for made in (folder / KERAS_FILE, folder / SAVED_MODEL.parts[0]):  # of an earlier model
        shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
    model = _with_weights(folder, description, weights)
    for export in (_export_keras, _export_saved_model):
        try:
            export(model, folder)
        except Exception as error:  # what a model of the user's makes impossible must not cost its training
            reason = (str(error).strip().splitlines() or [""])[0]
            print(f"not exported ({export.__name__.removeprefix('_export_')}): {type(error).__name__}: {reason:.300}")


def load_model(folder: Path) -> tuple[Recipe, Any, dict[str, Any]]:
    """The recipe, the model with its weights, and the description.

    Raises:
        InputError: not a model folder of this framework, or one that is damaged.
    """
    description = model_folder.read_description(folder)
    weights = load(model_folder.read_weights(folder, description))
    recipe = _recipe_of(folder, description)
    return recipe, _with_weights(folder, description, weights), description


def _recipe_of(folder: Path, description: Mapping[str, Any]) -> Recipe:
    try:
        return load_recipe(description["recipe"], description["recipe_options"])
    except (KeyError, TypeError) as error:
        raise model_folder.no_description(folder, error) from None


def _with_weights(folder: Path, description: Mapping[str, Any], weights: Mapping[str, Array]) -> Any:
    # As its numbers are kept, however they were multiplied.
    precision_of("fp64" if description.get("precision") == "fp64" else "fp32").set_up()
    model = _model_of(_recipe_of(folder, description))
    variables = variables_of(model)
    if {name: tuple(v.shape) for name, v in variables.items()} != {n: w.shape for n, w in weights.items()}:
        raise InputError(
            f"{folder / model_folder.WEIGHTS_FILE} does not fit recipe {description['recipe']!r}: it has "
            f"{len(weights)} tensors, the model {len(variables)} of other names or shapes."
        )
    for name, variable in variables.items():
        variable.assign(weights[name])
    return model


def _model_of(recipe: Recipe) -> Any:
    model: Any = recipe.model()
    if not isinstance(model, keras.Model):
        raise wrong_answer(recipe, "model", model, "a keras.Model")
    if not model.trainable_variables:
        raise InputError(
            f"{type(recipe).__module__}: the model of the recipe has no variables to train. Build it: give its first "
            "layer an input shape (keras.Input)."
        )
    return model


def _export_keras(model: Any, folder: Path) -> None:
    """Keras's file, without the time at which it was written."""
    made = folder / f".{KERAS_FILE}"
    model.save(made.with_suffix(".keras"))
    with zipfile.ZipFile(made) as written, zipfile.ZipFile(folder / KERAS_FILE, "w") as kept:
        for name in written.namelist():
            content = written.read(name)
            if name == "metadata.json":
                content = json.dumps({**json.loads(content), "date_saved": ""}).encode()
            kept.writestr(zipfile.ZipInfo(name, _NO_TIME), content)
    made.unlink()


def _export_saved_model(model: Any, folder: Path) -> None:
    """One signature: `inputs` -> `outputs`, in eval mode, for any number of rows; several have names of their own
    (drivetrain.training.serving.saved_model.named)."""
    inputs: Any = getattr(model, "_inputs_struct", model.inputs)
    if isinstance(inputs, list | tuple) and len(inputs) == 1:
        (inputs,) = inputs
    takes = named(inputs, INPUTS)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(
        SIGNATURE,
        lambda *given: named(model(trees.rebuilt(inputs, given), training=False), OUTPUTS),
        input_signature=[tf.TensorSpec((None, *one.shape[1:]), one.dtype, name=name) for name, one in takes.items()],
    )
    archive.write_out(str(folder / SAVED_MODEL), verbose=False)


def load_weights(model: Any, path: Path) -> list[str]:
    """Start a model from a file of weights, or the model folder of an earlier training; returns lines for people: what
    was taken, and what was left fresh. As with torch the last layer that has variables may be of another shape: it fits
    the number of classes, and then stays as the recipe's model drew it.

    Raises:
        InputError: no such file, no weights in it, or weights of another model.
    """
    path = find_weights(path)
    try:
        data = path.read_bytes()
        tensors = load(unpacked(path) if data.startswith(_GZIP) else data)
    except OSError as error:
        raise InputError(f"weights {str(path)!r}: {error.strerror}. Give a file that can be read.") from None
    except SafetensorError as error:
        raise InputError(
            f"weights {str(path)!r} cannot be read as weights ({error}). Allowed are safetensors, and the output "
            "`model` of a training of TensorFlow. A file of Keras (.keras, .weights.h5) is for the recipe's model()."
        ) from None
    held = variables_of(model)
    unfit = {
        name: f"{list(tensors[name].shape)} in the file, {list(variable.shape)} in the model"
        if name in tensors
        else "not in the file"
        for name, variable in held.items()
        if name not in tensors or tensors[name].shape != tuple(variable.shape)
    }
    wrong = sorted(unfit.keys() - _head_of(model, held))
    if wrong or len(unfit) == len(held):
        name = (wrong or sorted(unfit))[0]
        raise InputError(
            f"weights {str(path)!r} is of another model: {name} is {unfit[name]}; {len(unfit)} of {len(held)} tensors "
            "do not fit. Only the last layer may differ. Give the weights of this model, or the recipe's options that "
            "they were made with."
        )
    for name in held.keys() - unfit.keys():
        held[name].assign(tensors[name])
    lines = [f"start from {path}: took {len(held) - len(unfit)} of {len(held)} tensors"]
    if unfit:
        lines.append("left fresh: " + "; ".join(f"{name} ({reason})" for name, reason in unfit.items()))
    return lines


def _head_of(model: Any, held: dict[str, Any]) -> set[str]:
    """Names of the variables of the last layer that has some."""
    layers = [layer for layer in model.layers if layer.variables]
    last = {id(variable) for variable in layers[-1].variables} if layers else set[int]()
    return {name for name, variable in held.items() if id(variable) in last}
