"""Sums of each variable's gradient, weights and update (drivetrain.training.torch.health.tensor_sums has the reasons).

Gradients are seen inside the step's graph, behind a condition, after all replicas have added them up. Weights are read
before and after the step, outside of its graph: a sample of the elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from numpy.typing import NDArray

from drivetrain.training.health.record import TENSOR_COLUMNS, Floats, sampled_places, sampled_sums


class TensorSums:
    """Sums of the variables that are trained.

    Args:
        variables: Keras's, by name, in the order of the gradients.
        share: how much of the sums is this process's: all processes have the same variables and gradients.

    Attributes:
        sampled: the sampled weights as they are now, float64 [elements], a tensor.
    """

    def __init__(self, variables: dict[str, Any], share: float) -> None:
        self.names = tuple(variables)
        self.matrices = tuple(len(variable.shape) > 1 for variable in variables.values())
        self._variables, self._share = list(variables.values()), share
        sizes = [math.prod(variable.shape) for variable in self._variables]
        self._sizes = np.array(sizes, np.float64)
        self._places = [sampled_places(size) for size in sizes]
        self._owners = np.repeat(np.arange(len(sizes)), [len(places) for places in self._places])
        self.sampled: Any = tf.function(self._sampled, autograph=False)
        self.sampled.get_concrete_function()  # it is traced before the first step, whose time is taken

    def of_gradients(self, looks: Any, gradients: Sequence[Any]) -> tuple[Any, Any]:
        """In the graph of a step: each gradient's sum of squares, float64 [tensors], and which of the sampled elements
        have one, bool [elements]; zeros where the scalar `looks` is false."""

        def summed() -> tuple[Any, Any]:
            # (In float64 the square of no float32 overflows, or vanishes.)
            squares = [tf.reduce_sum(tf.square(tf.cast(gradient, tf.float64))) for gradient in gradients]
            return tf.stack(squares), tf.concat(self._picked(gradients), 0) != 0

        def nothing() -> tuple[Any, Any]:
            return tf.zeros(len(self.names), tf.float64), tf.zeros(len(self._owners), tf.bool)

        return tf.cond(looks, summed, nothing)

    def table(self, squares: Floats, moved: NDArray[np.bool_], before: Floats, after: Floats, scale: float) -> Floats:
        """This process's part of the sums of all, float64 [tensors, TENSOR_COLUMNS].

        Args:
            squares, moved: of `of_gradients`.
            before, after: of `sampled`.
            scale: what the gradients have been multiplied with.
        """
        columns = {
            "size": self._sizes,
            "grad_sq": squares / scale**2,
            "sampled": self._of_each(np.ones_like(before)),
            **sampled_sums(before, after, moved, self._of_each),
        }
        return np.stack([columns[name] for name in TENSOR_COLUMNS], axis=1) * self._share

    def _of_each(self, values: NDArray[Any]) -> Floats:
        return np.bincount(self._owners, weights=values, minlength=len(self.names)).astype(np.float64)

    def _sampled(self) -> Any:
        picked = self._picked([variable.value for variable in self._variables])
        return tf.concat([tf.cast(each, tf.float64) for each in picked], 0)

    def _picked(self, tensors: Sequence[Any]) -> list[Any]:
        return [
            tf.gather(tf.reshape(tensor, [-1]), places) for tensor, places in zip(tensors, self._places, strict=True)
        ]
