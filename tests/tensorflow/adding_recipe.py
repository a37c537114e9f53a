"""Recipes whose layers do more than compute: they have regularizers, add losses, and draw numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training_scripts.recipes import digits_keras

FRAMEWORK = "tensorflow"


class Adding(keras.layers.Layer):
    """Adds a loss of what it is given: a mean over the samples."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.25 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


class Masked(keras.layers.Layer):
    """A weight for each pixel, each dropped or kept for each sample."""

    def build(self, shape: Any) -> None:
        self.weight = self.add_weight(shape=shape[1:], initializer="ones")
        self.dropout = keras.layers.Dropout(0.5)

    def call(self, inputs: Any, training: bool = False) -> Any:
        kept = self.dropout(keras.ops.ones_like(inputs) * self.weight, training=training)
        return keras.ops.reshape(kept, (-1, digits_keras.SIDE**2))


@dataclass(frozen=True, kw_only=True)
class Recipe(digits_keras.Recipe):
    layers: tuple[str, ...] = ("weights", "activations", "adds")
    """Which of them the model has; or `masked` alone."""

    def model(self) -> Any:
        inputs = keras.Input((digits_keras.SIDE, digits_keras.SIDE, 1))
        if "masked" in self.layers:
            return keras.Sequential([inputs, Masked()])
        weights = keras.regularizers.L2(1 / 64) if "weights" in self.layers else None
        activations = keras.regularizers.L1(1 / 128) if "activations" in self.layers else None
        hidden = keras.layers.Dense(
            self.hidden, activation="tanh", kernel_regularizer=weights, activity_regularizer=activations
        )
        adds = [Adding()] if "adds" in self.layers else []
        return keras.Sequential([inputs, keras.layers.Flatten(), hidden, *adds, keras.layers.Dense(self.num_classes)])

    def losses(self, outputs: Any, targets: Any) -> Any:
        if "masked" in self.layers:
            return tf.reduce_sum(outputs, axis=1)
        return super().losses(outputs, targets)

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        return keras.optimizers.SGD(learning_rate)
