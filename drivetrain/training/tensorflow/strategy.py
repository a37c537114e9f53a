"""What strategies of TensorFlow have in common: a Keras 3 model under one of tf.distribute's strategies, and a step.

Gradients are those of sums of losses with one common scale, as with torch, so that uneven parts are exact. Each replica
gets as many rows in every step: what is missing is filled up with the first row, which weighs nothing, so that a step
is traced once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config
from drivetrain.training.framework import Framework
from drivetrain.training.layout import Layout, laid_out
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, HasLossWeights, Recipe, wrong_answer
from drivetrain.training.strategy import Step

# Common options that these strategies do not have yet: the value that leaves each out, and what to do instead.
_REFUSED: dict[str, tuple[Any, str]] = {
    "accumulation": (1, "Use a smaller global_batch, or more processes."),
    "ema_decay": (0.0, "Leave it out."),
    "activation_checkpointing": (False, "Leave it out, or use a smaller global_batch."),
    "compile": (False, "Leave it out: a step is a tf.function already."),
    "fused": (False, "Leave it out."),
    "sync_batchnorm": (False, "Give the recipe's layers synchronized=True (keras.layers.BatchNormalization)."),
    "profile": (0, "Leave it out."),
    "workers": (0, "Leave it out: a thread reads ahead."),
}


class Strategy:
    """One replica in one process; the others override `distribute`.

    Attributes:
        layout: which processes share a model; the replicas of one process share its part of a batch.
        model: the Keras model, its variables as the distribution holds them.
        optimizer: the recipe's, a keras.optimizers.Optimizer.
    """

    name: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]]
    framework: ClassVar[Framework]
    made: ClassVar[Any] = None
    """The distribution of this process, once `set_up` has made it."""

    def __init__(self, recipe: Recipe, model: Any, process: Process, config: Config, options: Any) -> None:
        self.recipe, self.process, self.config, self.options = recipe, process, config, options
        self._refuse(config)
        self.layout: Layout = laid_out(process, self.name, self.dimensions, dict.fromkeys(self.dimensions, 0))
        self.precision = SimpleNamespace(parameters="float32")
        self.distribution: Any = self.made or self.distribute(process, options)
        self._replicas = self.distribution.num_replicas_in_sync // self.layout.data_size
        with self.distribution.scope():
            # Variables belong to the distribution in whose scope they are made.
            self.model: Any = recipe.model()
            self.model.set_weights(model.get_weights())
            self.optimizer: Any = self._build_optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self._highest_rate = float(np.asarray(self.optimizer.learning_rate))
        part = -(-config.global_batch // self.layout.data_size)
        self._rows = -(-part // self._replicas)
        self._step = tf.function(self._distributed_step)

    # What a strategy changes.

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        """The tf.distribute.Strategy, made before anything is computed.

        Raises:
            InputError: these processes, or these options, cannot have it.
        """
        cls.refuse_several(process)
        return tf.distribute.get_strategy()

    @classmethod
    def refuse_several(cls, process: Process) -> None:
        """
        Raises:
            InputError: there is more than one process.
        """
        if process.world_size > 1:
            raise InputError(
                f"strategy {cls.name!r} is for one process, but {process.world_size} were started. Use strategy "
                "'tf_multi_worker', or one host with processes 1."
            )

    # What the loop asks.

    @classmethod
    def set_up(cls, process: Process, options: Any) -> None:
        cls.made = cls.distribute(process, options)

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int, measure: bool = False) -> Step:
        """One optimizer step; see drivetrain.training.strategy."""
        weights, total = self._weights(batch, num_samples)
        given = [self._dealt(values, num_samples) for values in (batch.inputs, batch.targets)]
        given.append(self._dealt(weights, len(weights)))
        weigh = num_global_samples if total is None else total
        scale = tf.constant(1.0 / weigh if weigh else 0.0, tf.float32)
        measures = measure or bool(self.config.clip_norm)
        loss, norm = self._step(*given, scale, measures)
        return Step(loss, norm if measures else None, total)

    def forward(self, inputs: Any) -> Any:
        return self.model(inputs, training=False)

    def on_device(self, batch: Batch) -> Batch:
        return batch  # `_dealt` puts the rows where they are computed

    def set_training(self, on: bool) -> None:
        return  # each call says it

    def set_learning_rate(self, factor: float) -> float:
        rate = self._highest_rate * factor
        self.optimizer.learning_rate.assign(rate)
        return rate

    def settle(self) -> None:
        return

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        yield

    def _distributed_step(self, inputs: Any, targets: Any, weights: Any, scale: Any, measures: bool) -> Any:
        losses, norms = self.distribution.run(self._replica_step, args=(inputs, targets, weights, scale, measures))
        local = self.distribution.experimental_local_results
        return tf.add_n(local(losses)), local(norms)[0]

    def _replica_step(self, inputs: Any, targets: Any, weights: Any, scale: Any, measures: bool) -> Any:
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            losses: Any = self.recipe.losses(self.model(inputs, training=True), targets)
            weighted = losses * tf.cast(weights, losses.dtype)
            summed = tf.reduce_sum(weighted) * scale
        gradients: Any = tape.gradient(summed, [variable.value for variable in variables])
        norm = tf.zeros(())
        if measures:
            context = tf.distribute.get_replica_context()
            norm = tf.linalg.global_norm(context.all_reduce(tf.distribute.ReduceOp.SUM, gradients))
        if self.config.clip_norm:  # (the same share of each replica's part is that share of their sum)
            share = tf.minimum(1.0, self.config.clip_norm / (norm + 1e-6))
            gradients = [gradient * share for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))  # which adds up the replicas'
        return tf.reduce_sum(tf.cast(weighted, tf.float64)), norm

    def _dealt(self, values: Any, num_samples: int) -> Any:
        """Rows for each replica of this process, filled up to one number."""
        rows = np.asarray(values)[:num_samples] if num_samples else np.asarray(values)[:1]
        missing = self._rows * self._replicas - len(rows)
        filled = np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]) if missing else rows
        if self._replicas == 1:
            return tf.constant(filled)
        parts = np.split(filled, self._replicas)
        return self.distribution.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    def _weights(self, batch: Batch, num_samples: int) -> tuple[NDArray[np.float64], float | None]:
        """What each row weighs, those that fill up nothing; and what the global batch weighs, where the recipe says."""
        own, total = np.ones(num_samples), None
        if isinstance(self.recipe, HasLossWeights):
            own = np.asarray(self.recipe.loss_weights(batch.targets), np.float64)[:num_samples]
            if not (np.isfinite(own).all() and (own >= 0).all()):
                raise wrong_answer(self.recipe, "loss_weights", own, "finite numbers from 0")
            total = float(self.process.sum(own.sum()))
        return np.concatenate([own, np.zeros(self._rows * self._replicas - len(own))]), total

    def _build_optimizer(self) -> Any:
        config = self.config
        optimizer: Any = self.recipe.optimizer(
            self.model, learning_rate=config.highest_learning_rate, weight_decay=config.weight_decay
        )
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise wrong_answer(self.recipe, "optimizer", optimizer, "a keras.optimizers.Optimizer")
        return optimizer

    def _refuse(self, config: Config) -> None:
        for field, (without, advice) in _REFUSED.items():
            if getattr(config, field) != without:
                raise InputError(f"{field}={getattr(config, field)}: strategies of TensorFlow do not have it. {advice}")
        if config.precision != "fp32":
            raise InputError(f"precision={config.precision}: strategies of TensorFlow compute in fp32. Leave it out.")
