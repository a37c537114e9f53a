"""Watch a synchronous strategy's steps: on some of them the sums of tensors and layers.

A step is one graph, which has the sums behind a condition: it is traced once, and steps that are not looked at compute
none of them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training import trees
from drivetrain.training.health.record import LAYER_COLUMNS, Floats
from drivetrain.training.recipe import Batch
from drivetrain.training.tensorflow.health.layer_sums import LayerSums
from drivetrain.training.tensorflow.health.tensor_sums import TensorSums

_SQUARES = LAYER_COLUMNS.index("sq")


class Watcher:
    """See drivetrain.training.framework.Watcher. The strategy calls what is below, once the loop has asked for it."""

    tells_phases = computes_alone = False  # nobody tells apart what a graph does

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self.of_tensors = TensorSums(strategy.trained, 1 / strategy.process.world_size)
        # (What XLA compiles has to stay what it is without a watcher, to the bit.)
        self.of_layers = LayerSums(None if strategy.config.compile else strategy.model)
        self.tensors, self.matrices = self.of_tensors.names, self.of_tensors.matrices
        self.layers = self.of_layers.names
        self.is_scaled = strategy.scales
        self._on_host = strategy.process.device == "cpu"
        self._is_summing = False
        self._looks = (tf.constant(False), tf.constant(True))
        self._scale, self._began = 1.0, 0.0
        self._before: Any = None
        self._seen: tuple[Any, ...] = ()
        self._usual: deque[float] = deque(maxlen=9)  # seconds of steps that were not looked at
        self.nonfinite, self.seconds = "", 0.0
        strategy.watcher = self

    # What the loop asks.

    def begin(self) -> None:
        begun = time.perf_counter()
        self._is_summing = True
        self._scale = float(self._strategy.loss_scale.numpy()) if self.is_scaled else 1.0
        self._before = self.of_tensors.sampled()
        self.seconds = time.perf_counter() - begun

    def end(self) -> Callable[[], tuple[Floats, Floats]]:
        self._is_summing = False
        before, scale, (after, squares, moved, layers) = self._before, self._scale, self._seen
        self._before, self._seen = None, ()

        def wait() -> tuple[Floats, Floats]:
            squared, met, was, now = (np.asarray(one) for one in (squares, moved, before, after))
            return self.of_tensors.table(squared, met, was, now, scale), np.asarray(layers)

        return wait

    # What the strategy tells.

    def step_begins(self) -> Any:
        """A scalar of TensorFlow that is True if the sums are wanted."""
        self._began = time.perf_counter()
        return self._looks[self._is_summing]

    def step_done(self, batch: Batch, loss: Any, squares: Any, moved: Any, layers: Any) -> None:
        """
        Args:
            loss: the sum of this process's losses.
            squares, moved: of TensorSums.of_gradients.
            layers: of LayerSums.of_outputs, over the replicas of this process.
        """
        took = time.perf_counter() - self._began
        if self._is_summing:
            begun = time.perf_counter()
            self._seen = (self.of_tensors.sampled(), squares, moved, layers)
            self.seconds += time.perf_counter() - begun
            if self._usual:  # else the graph was traced in it, perhaps
                self.seconds += max(0.0, took - median(self._usual))
        else:
            self._usual.append(took)
        if self._on_host and not self.nonfinite and not math.isfinite(float(loss)):
            self.nonfinite = self._first_nonfinite(batch, np.asarray(layers))

    def _first_nonfinite(self, batch: Batch, layers: Floats) -> str:
        for name, tree in (("inputs", batch.inputs), ("targets", batch.targets)):
            if not all(_is_finite(values) for values in trees.leaves(tree)):
                return f"the {name} of the batch are not finite"
        if not self.layers:
            return "no layer is named"
        bad = [place for place in self.of_layers.order if not math.isfinite(layers[place, _SQUARES])]
        if bad:
            weights = ", or its weights," if self.of_layers.layers[bad[0]].weights else ""
            return f"the outputs of layer {self.layers[bad[0]]}{weights} are the first that are not finite"
        return "the outputs of layers are finite, and the recipe's losses of them are not"


def _is_finite(values: Any) -> bool:
    numbers = np.asarray(values)
    return not np.issubdtype(numbers.dtype, np.floating) or bool(np.isfinite(numbers).all())
