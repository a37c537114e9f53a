"""Sums over the outputs of layers, in the graph of a step: what layers put out is noted while it is traced."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training.health.record import LAYER_COLUMNS

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
