"""An exponential moving average of a Keras model's parameters (torch/average.py has the reasons)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]


class MovingAverage:
    """
    Args:
        parameters: Keras's variables of the model, by name.
        distribution: in whose scope they were made.
    """

    def __init__(self, parameters: Mapping[str, Any], decay: float, distribution: Any) -> None:
        self.decay, self.parameters, self.distribution = decay, parameters, distribution
        with distribution.scope():
            self.values: dict[str, Any] = {
                name: tf.Variable(parameter.numpy(), trainable=False) for name, parameter in parameters.items()
            }

    def begin(self) -> None:
        """Begin with the parameters as they are now."""
        for name, value in self.values.items():
            self._assign(value, self.parameters[name].numpy())

    def update(self, accepted: Any) -> None:
        """After a step, outside of the replicas: average = decay * average + (1 - decay) * parameter.

        Args:
            accepted: a tensor, 1; or 0 for a step that was left out.
        """
        for name, value in self.values.items():
            share = tf.cast((1.0 - self.decay) * accepted, value.dtype)
            self.distribution.extended.update(value, _moved, args=(self.parameters[name].value, share), group=False)

    @contextmanager
    def in_place(self) -> Generator[None]:
        """The model computes with the averages inside, and with its own parameters again afterwards."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for name, value in self.values.items():
            kept, own = value.numpy(), self.parameters[name].numpy()
            self._assign(value, own)
            self._assign(self.parameters[name], kept)

    def _assign(self, variable: Any, numbers: np.ndarray[Any, Any]) -> None:
        with self.distribution.scope():
            variable.assign(numbers)


def _moved(value: Any, parameter: Any, share: Any) -> Any:
    return value.assign_add(share * (parameter - value))
