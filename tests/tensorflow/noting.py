"""digits_keras, which notes what a training makes of it: how many rows a piece has, which labels came in what order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training_scripts.recipes import digits_keras

FRAMEWORK = "tensorflow"


@dataclass(frozen=True, kw_only=True)
class Recipe(digits_keras.Recipe):
    channels: int = 4
    hidden: int = 16
    optimizer_name: str = "sgd"
    loss_factor: float = 1.0
    """What every loss is multiplied by."""
    makes: str = ""
    """What is wrong with it: no_optimizer, clips, schedules, mean_loss, batch_norm, no_pairs, forgets, ranks_apart."""

    rows: ClassVar[list[int]] = []
    labels: ClassVar[list[list[int]]] = []

    def model(self) -> Any:
        if self.makes == "ranks_apart":
            model = super().model()
            shift = 0.1 * int(os.environ.get("RANK", 0))
            model.set_weights([values + shift for values in model.get_weights()])
            return model
        if self.makes != "batch_norm":
            return super().model()
        layers = keras.layers
        return keras.Sequential(
            [keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(8), layers.BatchNormalization(), layers.Dense(10)]
        )

    def batch(self, columns: Columns, label: str) -> Batch:
        self.labels.append(columns[label].tolist())
        return super().batch(columns, label)

    def losses(self, outputs: Any, targets: Any) -> Any:
        if not tf.executing_eagerly():  # as a training step is traced
            self.rows.append(int(outputs.shape[0]))
        losses = super().losses(outputs, targets) * self.loss_factor
        return tf.reduce_mean(losses) if self.makes == "mean_loss" else losses

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        if self.makes == "no_optimizer":
            return getattr(model, "optimizer", None)
        if self.makes == "clips":
            return keras.optimizers.SGD(learning_rate, global_clipnorm=1.0)
        if self.makes == "schedules":
            return keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(learning_rate, 10))
        if self.makes == "no_pairs":
            return [keras.optimizers.SGD(learning_rate), keras.optimizers.SGD(learning_rate)]
        if self.makes == "forgets":
            return [(keras.optimizers.SGD(learning_rate), model.trainable_variables[1:])]
        return super().optimizer(model, learning_rate=learning_rate, weight_decay=weight_decay)


@dataclass(frozen=True, kw_only=True)
class Weighing(Recipe):
    """Its samples weigh as much as their label says, so some of them nothing."""

    def loss_weights(self, targets: Any) -> Any:
        return tf.cast(targets % 3, tf.float32)
