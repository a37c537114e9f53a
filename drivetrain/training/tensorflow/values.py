"""A Keras model's outputs as numbers. TensorFlow is not needed: it travels with a model that is served."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training import trees
from drivetrain.training.recipe import Batch

Array = NDArray[Any]


class Values:
    without_gradients = nullcontext  # there is no tape

    @staticmethod
    def precision_of(model: Any) -> str:
        return model.trainable_variables[0].dtype

    @staticmethod
    def is_tensor(value: object) -> bool:
        return isinstance(value, np.ndarray) or (hasattr(value, "numpy") and hasattr(value, "shape"))

    @staticmethod
    def array(tensor: Any) -> Array:
        return np.asarray(tensor)

    @staticmethod
    def on_host(outputs: Any) -> Any:
        return outputs

    @staticmethod
    def softmax(outputs: Any) -> Array:
        numbers = np.asarray(outputs, np.float64)
        shifted = np.exp(numbers - numbers.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    @staticmethod
    def sigmoid(outputs: Any) -> Array:
        with np.errstate(over="ignore"):  # of a large negative logit it is 0
            return 1.0 / (1.0 + np.exp(-np.asarray(outputs, np.float64)))

    @staticmethod
    def rows(batch: Any, places: Array) -> Batch:
        return Batch(*trees.mapped(lambda values: values[places], (batch.inputs, batch.targets)))

    @staticmethod
    def on_device(batch: Batch, device: str, precision: str) -> Batch:
        """Keras takes arrays of numpy as they are."""
        return in_format(batch, precision)


def in_format(batch: Batch, parameters: str) -> Batch:
    """The batch, its floating-point numbers in the format of the parameters."""

    def cast(values: Any) -> Any:
        numbers = np.asarray(values)
        return numbers.astype(parameters, copy=False) if np.issubdtype(numbers.dtype, np.floating) else numbers

    return Batch(*trees.mapped(cast, (batch.inputs, batch.targets)))
