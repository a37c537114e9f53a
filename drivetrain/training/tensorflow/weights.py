"""Start a Keras model from a file of weights: the model folder of an earlier training, or its safetensors.

As with torch the last layer that has variables may be of another shape: it fits the number of classes, and then stays
as the recipe's model drew it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load

from drivetrain.base.errors import InputError
from drivetrain.training.tensorflow.strategy import variables_of
from drivetrain.training.weights_file import find_weights, unpacked

_GZIP = b"\x1f\x8b"


def load_weights(model: Any, path: Path) -> list[str]:
    """Put the weights of a file into a model; returns lines for people: what was taken, and what was left fresh.

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
