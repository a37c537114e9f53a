"""Handle what Keras layers do beside their outputs: they draw numbers, and add losses of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

# 2^32 over the golden ratio: the seeds of neighbouring replicas lie far apart.
_APART = 0x9E3779B9


def draw_apart(model: Any, replica: Callable[[], Any]) -> None:
    """Let each replica draw numbers of its own, such as a dropout's mask.

    The state of a layer's generator is a variable, equal in all replicas: a checkpoint holds it once. Each replica
    draws by a seed of its own, made of it; replica 0 draws what plain Keras does.

    Args:
        replica: gives the number of the replica that is computing, an integer or a tensor [].
    """
    for layer in layers_of(model):
        for generator in layer._seed_generators:
            generator.next = _next(generator, replica)


def _next(generator: Any, replica: Callable[[], Any]) -> Callable[..., Any]:
    following = generator.next

    def draw(ordered: bool = True) -> Any:
        seed = following(ordered)
        number = tf.cast(replica(), seed.dtype)
        return seed + tf.stack([number * tf.constant(_APART, seed.dtype), tf.zeros_like(number)])

    return draw


def layers_of(model: Any) -> Iterator[Any]:
    """The model and all layers within it."""
    yield from model._flatten_layers()


def losses_of_samples(model: Any) -> list[Any]:
    """The losses that layers added in the last call: activity regularizers and `add_loss`, each a mean over the call's
    samples."""
    return [loss for layer in layers_of(model) for loss in layer._get_own_losses()]


def why_across(model: Any) -> str:
    """Why rows that fill up a batch would count in a layer, for people; empty where they would not.

    A layer that calls `add_loss` is known after the first call.
    """
    every = list(layers_of(model))
    if any(isinstance(layer, keras.layers.BatchNormalization) for layer in every):
        return "normalizes over samples (BatchNormalization; GroupNormalization does not)"
    if any(layer.activity_regularizer is not None for layer in every):
        return "has a loss of its activations (activity_regularizer)"
    return "has a loss of its activations (add_loss)" if losses_of_samples(model) else ""


def gradients_of_regularizers(model: Any, factor: Any) -> list[Any] | None:
    """The gradients of `factor` times the sum of the weights' regularizers; None without regularizers."""
    if all(variable.regularizer is None for variable in model.trainable_variables):
        return None
    with tf.GradientTape() as tape:
        penalty = tf.add_n([tf.convert_to_tensor(each) for each in model._get_regularization_losses()]) * factor
    variables = [variable.value for variable in model.trainable_variables]
    gradients: Any = tape.gradient(penalty, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [tf.convert_to_tensor(each) for each in gradients]
