"""Check what TensorFlow's strategies ask of a recipe's optimizer.

Gradients arrive at it summed over all replicas already. What Keras would do to those of each replica alone (clip them,
accumulate, average) a strategy does itself, by the fields of Config.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config
from drivetrain.training.loop.schedule import check_schedules
from drivetrain.training.recipe import Recipe, wrong_answer

# What an optimizer of Keras may have of its own -> the field that does it here.
_OF_CONFIG = {
    "clipnorm": "clip_norm",
    "clipvalue": "clip_norm",
    "global_clipnorm": "clip_norm",
    "use_ema": "ema_decay",
    "gradient_accumulation_steps": "accumulation",
    "loss_scale_factor": "precision",
}
# The method of Keras's optimizers that sums gradients over the replicas.
_SUMS = "_all_reduce_sum_gradients"


@dataclass(frozen=True)
class Part:
    """One of a recipe's optimizers: `places` are those of its variables among the model's trainable ones."""

    optimizer: Any
    places: tuple[int, ...]
    highest_rate: float

    def set_learning_rate(self, factor: float) -> float:
        rate = self.highest_rate * factor
        self.optimizer.learning_rate.assign(rate)
        return rate

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """
        Args:
            gradients, variables: of the whole model.
        """
        self.optimizer.apply([gradients[place] for place in self.places], [variables[place] for place in self.places])


def build_optimizers(recipe: Recipe, model: Any, config: Config) -> list[Part]:
    """The recipe's optimizers of `model`, with their variables; for fp16 in Keras's that scales the loss.

    Raises:
        InputError: it returned none, or one that does by itself what Config says; several that do not share out the
            variables, or with fp16.
    """
    found: Any = recipe.optimizer(model, learning_rate=config.highest_learning_rate, weight_decay=config.weight_decay)
    variables = model.trainable_variables
    pairs: Any = found if isinstance(found, list | tuple) else [(found, variables)]
    where = f"{type(recipe).__module__}: optimizer() of the recipe"
    try:
        places = [tuple(_place_of(variable, variables) for variable in own) for _, own in pairs]
    except (TypeError, ValueError):
        raise wrong_answer(
            recipe, "optimizer", found, "an optimizer, or a list of pairs: an optimizer, and variables that it trains"
        ) from None
    if sorted(place for own in places for place in own) != list(range(len(variables))):
        raise InputError(
            f"{where} returned {len(pairs)} optimizers that do not share out the {len(variables)} trainable variables. "
            "Give each variable to one of them."
        )
    if config.precision == "fp16" and pairs[1:]:
        raise InputError(
            f"{where} returned {len(pairs)} optimizers, and with precision fp16 each would scale the loss. Use bf16, "
            "or return one optimizer."
        )
    parts = [_part(recipe, optimizer, model, own, config) for (optimizer, _), own in zip(pairs, places, strict=True)]
    check_schedules(recipe, len(parts))
    return parts


def _place_of(variable: Any, variables: Sequence[Any]) -> int:
    return [id(each) for each in variables].index(id(variable))


def _part(recipe: Recipe, optimizer: Any, model: Any, places: tuple[int, ...], config: Config) -> Part:
    where = f"{type(recipe).__module__}: optimizer() of the recipe"
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        if optimizer is None:
            raise InputError(
                f"{where} returned none: a Keras model that was not compiled has no optimizer. Return one, such as "
                "keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay); or compile the model in model() "
                "and return model.optimizer."
            )
        raise wrong_answer(recipe, "optimizer", optimizer, "a keras.optimizers.Optimizer")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise InputError(f"{where} scales the loss (LossScaleOptimizer). Return the inner one, with precision=fp16.")
    for name, field in _OF_CONFIG.items():
        if getattr(optimizer, name, None):
            raise InputError(
                f"{where} has {name}={getattr(optimizer, name)}, which Keras would do to each replica's part of a "
                f"gradient. Leave it out, and give the training {field}."
            )
    if not isinstance(getattr(optimizer, "_learning_rate", None), keras.Variable):
        raise InputError(
            f"{where} has a schedule of its own. Give it the plain learning_rate, and the training a schedule."
        )
    if not hasattr(optimizer, _SUMS):
        raise InputError(
            f"Keras {keras.__version__} has optimizers that sum gradients in another way than the versions that are "
            "known here. Install Keras 3.15."
        )
    setattr(optimizer, _SUMS, lambda gradients_and_variables: gradients_and_variables)
    if config.precision == "fp16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**16)
    optimizer.build([model.trainable_variables[place] for place in places])
    return Part(optimizer, places, float(np.asarray(optimizer.learning_rate)))
