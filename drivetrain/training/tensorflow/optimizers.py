"""What strategies of TensorFlow ask of a recipe's optimizer.

Gradients arrive at it summed over all replicas already. What Keras would do to those of each replica alone (clip them,
accumulate, average) a strategy does itself, by the fields of Config.
"""

from __future__ import annotations

from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config
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


def build_optimizer(recipe: Recipe, model: Any, config: Config) -> Any:
    """The recipe's optimizer of `model`, with its variables; for fp16 in Keras's that scales the loss.

    Raises:
        InputError: it returned none, or one that does by itself what Config says.
    """
    optimizer: Any = recipe.optimizer(
        model, learning_rate=config.highest_learning_rate, weight_decay=config.weight_decay
    )
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
    optimizer.build(model.trainable_variables)
    return optimizer


def learning_rate_of(optimizer: Any) -> float:
    return float(np.asarray(optimizer.learning_rate))
