"""Digits with a fault that is planted in the Keras model (tests/fixtures/faulty_recipe.py has those of torch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training_scripts.recipes import digits_keras

FRAMEWORK = "tensorflow"


@dataclass(frozen=True, kw_only=True)
class Recipe(digits_keras.Recipe):
    channels: int = 4
    hidden: int = 16
    fault: str = ""

    def model(self) -> Any:
        *layers, last = super().model().layers
        if self.fault == "nan_or_inf":
            layers.append(After(10, float("nan")))
        if self.fault == "exploding_gradients":
            layers.append(After(10, 1e4))
        if self.fault == "vanishing_gradients":
            layers += [keras.layers.Dense(16, activation="sigmoid") for _ in range(12)]
        if self.fault == "unchanging_tensors":
            layers.append(Detached())
        model = keras.Sequential([keras.Input((8, 8, 1)), *layers, last])
        if self.fault == "dead_activations":
            layers[1].bias.assign(tf.fill(layers[1].bias.shape, -100.0))
        if self.fault == "poor_initialisation":
            layers[1].kernel.assign(1e5 * layers[1].kernel)
        return model

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        if self.fault != "saturated_updates":
            return super().optimizer(model, learning_rate=learning_rate, weight_decay=weight_decay)
        *before, kernel, bias = model.trainable_variables
        # Steps of one length, whatever the gradient, which the last layer takes to and fro.
        large = keras.optimizers.AdamW(200 * learning_rate, beta_1=0.0, beta_2=0.0, weight_decay=5.0)
        return [(keras.optimizers.AdamW(learning_rate), before), (large, [kernel, bias])]


class After(keras.layers.Layer):
    """Multiplies by `factor` from a number of passes on."""

    def __init__(self, passes: int, factor: float) -> None:
        super().__init__()
        self.passes, self.factor = passes, factor
        self.met = self.add_weight(shape=(), initializer="zeros", trainable=False, name="met")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return inputs
        self.met.assign_add(1.0)
        return inputs * tf.where(self.met > self.passes, self.factor, 1.0)


class Detached(keras.layers.Layer):
    """A weight that no gradient reaches."""

    def build(self, shape: Any) -> None:
        self.weight = self.add_weight(shape=shape[-1:], initializer="ones", name="weight")

    def call(self, inputs: Any) -> Any:
        return inputs * tf.stop_gradient(self.weight)
