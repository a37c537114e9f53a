"""digits_keras with two optimizers: SGD for the convolutions, AdamW for the rest, at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training_scripts.recipes import digits_keras

FRAMEWORK = "tensorflow"


@dataclass(frozen=True, kw_only=True)
class Recipe(digits_keras.Recipe):
    channels: int = 4
    hidden: int = 16
    schedules: tuple[str, ...] = ("", "constant")

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        wide = [variable for variable in model.trainable_variables if len(variable.shape) == 4]
        rest = [variable for variable in model.trainable_variables if len(variable.shape) != 4]
        return [
            (keras.optimizers.AdamW(0.1 * learning_rate, weight_decay=weight_decay, epsilon=1e-8), rest),
            (keras.optimizers.SGD(learning_rate, momentum=0.9), wide),
        ]
