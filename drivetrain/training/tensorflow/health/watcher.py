"""Watch a synchronous strategy's steps: on some of them the sums of tensors and layers.

A step is one graph, which has the sums behind a condition: it is traced once, and steps that are not looked at compute
none of them.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from numpy.typing import NDArray

from drivetrain.training import trees
from drivetrain.training.health.record import LAYER_COLUMNS, TENSOR_COLUMNS, Floats, sampled_places, sampled_sums
from drivetrain.training.recipe import Batch

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


class TensorSums:
    """Sums of each trained variable's gradient, weights and update (drivetrain.training.torch.health.tensor_sums has
    the reasons).

    Gradients are seen inside the step's graph, behind a condition, after all replicas have added them up. Weights are
    read before and after the step, outside of its graph: a sample of the elements.

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


# Their zeros say nothing of what is learnt; nor do those of dropouts, which are classes of many names.
_LEFT_OUT = (keras.layers.InputLayer, keras.layers.Flatten, keras.layers.Reshape, keras.layers.Permute)

Heard = list[tuple[int, Any]]
"""The place of a layer among those that are summed up, and an output of it."""


class LayerSums:
    """
    Args:
        model: whose layers are summed up; None for none.

    Attributes:
        layers: those that have no layers inside, and those that stand in the model itself.
        order: their places in the order in which they put out what is summed up, known when a step was traced.
    """

    def __init__(self, model: Any) -> None:
        self.layers = _watched(model) if model else []
        # (Keras numbers the names of layers by what a process has made before.)
        self.names = tuple(
            f"{number:03d}.{re.sub(r'_[0-9]+$', '', layer.name)}" for number, layer in enumerate(self.layers)
        )
        self.order: list[int] = []
        self._of_thread = threading.local()  # each replica is traced in a thread of its own

    @contextmanager
    def hearing(self) -> Generator[None]:
        """Layers that are called inside, in any thread, can be heard by `of_pass`."""
        own = [layer.__dict__.get("call") for layer in self.layers]
        for place, layer in enumerate(self.layers):
            layer.__dict__["call"] = self._noting(place, layer.call)  # Keras has no hooks
        try:
            yield
        finally:
            for layer, call in zip(self.layers, own, strict=True):
                del layer.__dict__["call"]
                if call:
                    layer.__dict__["call"] = call

    @contextmanager
    def of_pass(self) -> Generator[Heard]:
        """Collect the outputs of layers that are called inside, in this thread."""
        self._of_thread.heard = heard = []
        try:
            yield heard
        finally:
            self._of_thread.heard = None

    def of_outputs(self, looks: Any, heard: Heard, counted: Any) -> Any:
        """In the graph of a step: float64 [layers, LAYER_COLUMNS]; zeros where the scalar `looks` is false.

        Args:
            counted: which rows are samples that count, bool [rows].
        """
        graph, rows = counted.graph, counted.shape[0]
        # What is inside of a loop cannot be seen here, and what has no row for each sample is counted for none.
        seen = [(place, one) for place, one in heard if one.graph is graph and one.shape.rank and one.shape[0] == rows]
        self.order = list(dict.fromkeys(place for place, _ in seen))

        def summed() -> Any:
            found: dict[int, Any] = {}
            for place, output in seen:
                sums = _sums(output, counted, zeros=_has_zeros(self.layers[place]))
                found[place] = found[place] + sums if place in found else sums
            none = tf.zeros(len(LAYER_COLUMNS), tf.float64)
            return tf.stack([found.get(place, none) for place in range(len(self.layers))])

        return tf.cond(looks, summed, lambda: tf.zeros((len(self.layers), len(LAYER_COLUMNS)), tf.float64))

    def _noting(self, place: int, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def noting(*args: Any, **kwargs: Any) -> Any:
            outputs: Any = call(*args, **kwargs)
            first: Any = outputs[0] if isinstance(outputs, list | tuple) and outputs else outputs
            heard = getattr(self._of_thread, "heard", None)
            if heard is not None and tf.is_tensor(first) and first.dtype.is_floating:
                heard.append((place, first))
            return outputs

        return noting


def _watched(model: Any) -> list[Any]:
    outer = {id(layer) for layer in model.layers}
    found = {id(layer): layer for layer in model._flatten_layers(include_self=False)}
    return [
        layer
        for key, layer in found.items()
        if (key in outer or not layer._layers)
        and not isinstance(layer, _LEFT_OUT)
        and "Dropout" not in type(layer).__name__
    ]


def _has_zeros(layer: Any) -> bool:
    """Zeros of what has weights of its own, and no activation, are chance."""
    activation = getattr(layer, "activation", None)
    return not layer.weights or activation not in (None, keras.activations.linear)


def _sums(output: Any, counted: Any, *, zeros: bool) -> Any:
    """Elements, squares and zeros of the rows that count, float64 [3]."""
    flat = tf.reshape(output, [counted.shape[0], -1])
    flat = flat if flat.dtype == tf.float64 else tf.cast(flat, tf.float32)
    size = tf.reduce_sum(tf.cast(counted, tf.float64)) * float(flat.shape[1] or 0)

    def of_rows(values: Any) -> Any:  # row by row, where float32 has digits enough
        each = tf.cast(tf.reduce_sum(values, axis=1), tf.float64)
        return tf.reduce_sum(tf.where(counted, each, tf.zeros_like(each)))

    none = of_rows(tf.cast(flat == 0, tf.float32)) if zeros else tf.zeros((), tf.float64)
    return tf.stack([size, of_rows(tf.square(flat)), none])
