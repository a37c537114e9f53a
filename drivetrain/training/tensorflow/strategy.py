"""The common part of TensorFlow's strategies: a Keras 3 model under one of tf.distribute's strategies, and a step.

Gradients are those of sums of losses with one common scale, as with torch, so that uneven parts are exact. Each replica
gets as many rows in every step: what is missing is filled up with the first row, which weighs nothing, so that a step
is traced once. (Not where a layer would see those rows: see `_rows_of`.)
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.config import Config
from drivetrain.training.framework import Framework
from drivetrain.training.health.record import LAYER_COLUMNS
from drivetrain.training.layout import Layout, laid_out
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, HasLossWeights, Recipe, wrong_answer
from drivetrain.training.strategy import Step
from drivetrain.training.tensorflow import layers as of_layers
from drivetrain.training.tensorflow.average import MovingAverage
from drivetrain.training.tensorflow.health.watcher import Watcher
from drivetrain.training.tensorflow.optimizers import build_optimizers
from drivetrain.training.tensorflow.precision import SMALLEST_LOSS_SCALE, precision_of
from drivetrain.training.tensorflow.refusals import REFUSED
from drivetrain.training.tensorflow.values import in_format
from drivetrain.training.trees import Tree


class Strategy:
    """One replica in one process; the others override `distribute`.

    Attributes:
        layout: which processes share a model; the replicas of one process share its part of a batch.
        model: the Keras model, its variables as the distribution holds them.
        parts: the recipe's optimizers.
        scales: whether the loss is scaled.
        watcher: what is told of each step, where the loop asks for it (drivetrain.training.health).
    """

    name: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]]
    framework: ClassVar[Framework]
    made: ClassVar[dict[Any, Any]] = {}
    """The distributions of this process, by class and options: a second one of a kind would number its messages from
    the start again."""
    is_synchronous: ClassVar[bool] = True
    """True if all replicas take a step together, from one gradient."""
    watcher: Watcher | None = None

    def __init__(self, recipe: Recipe, model: Any, process: Process, config: Config, options: Any) -> None:
        self.recipe, self.process, self.config, self.options = recipe, process, config, options
        _refuse(config)
        self.layout: Layout = laid_out(process, self.name, self.dimensions, dict.fromkeys(self.dimensions, 0))
        self.precision = precision_of(config.precision)
        self.precision.set_up()
        self.distribution: Any = self._distribution(process, options)
        self._replicas = self.num_replicas // self.layout.data_size
        with self.distribution.scope():
            # Variables belong to the distribution in whose scope they are made.
            self.model: Any = recipe.model()
            self.model.set_weights(model.get_weights())
            self.parts = build_optimizers(recipe, self.model, config)
        self.average = MovingAverage(self.trained, config.ema_decay, self.distribution) if config.ema_decay else None
        self.scales = config.precision == "fp16"
        of_layers.draw_apart(self.model, self.replica)
        self._looks_across = bool(of_layers.why_across(self.model))
        part = -(-config.global_batch // self.layout.data_size)
        self._rows = -(-part // (self._replicas * config.accumulation)) * config.accumulation
        # XLA compiles what a replica computes by itself: not what it tells the others.
        # (Without AutoGraph, as Keras's own fit does it: what is refused while it is traced keeps its type.)
        self._of_piece: Any = self._piece
        if config.compile:
            self._of_piece = tf.function(self._piece, jit_compile=True, autograph=False)
        self._step = tf.function(self._distributed_step, autograph=False)

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

    @property
    def num_replicas(self) -> int:
        """The number of replicas of all processes: each gets as many rows of a global batch."""
        return self.distribution.num_replicas_in_sync

    def replica(self) -> Any:
        """The number of the replica that is computing, an integer or a tensor []."""
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    def summed(self, gradients: list[Any]) -> list[Any]:
        """The gradients summed over all replicas; called in each replica, where there are several."""
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)

    @classmethod
    def _distribution(cls, process: Process, options: Any) -> Any:
        key = (cls, options, process.world_size)
        if key not in cls.made:
            cls.made[key] = cls.distribute(process, options)
        return cls.made[key]

    # What the loop asks.

    @classmethod
    def set_up(cls, process: Process, options: Any) -> None:
        cls._distribution(process, options)

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int, measure: bool = False) -> Step:
        """One optimizer step; see drivetrain.training.strategy."""
        rows = self._rows_of(num_samples, num_global_samples)
        weights, total = self._weights(batch, num_samples, rows)
        given = [self._dealt(values, num_samples, rows) for values in (batch.inputs, batch.targets)]
        given.append(self._dealt(weights, len(weights), rows))
        weigh = num_global_samples if total is None else total
        scale = self._scale(weigh, num_global_samples)
        self._dealt_out = num_global_samples, rows * self.num_replicas
        measures = measure or bool(self.config.clip_norm) or self.scales
        watcher = self.watcher
        looks = watcher.step_begins() if watcher else None
        loss, norm, *seen = self._step(*given, scale, measures, looks)
        if watcher:
            watcher.step_done(batch, loss, *seen)
        if self.scales and (now := float(self.loss_scale.numpy())) < SMALLEST_LOSS_SCALE:
            raise InputError(
                f"precision fp16: gradients are not finite, whatever the scale of the loss (now {now:g}). Use "
                "precision bf16, which has the range of fp32; or look for a loss that is not finite."
            )
        return Step(loss, norm if measures else None, total)

    def _scale(self, weight: float, num_samples: int) -> Any:
        """[2]: what sums of the recipe's losses and what sums over samples are multiplied by."""
        factors = [1.0 / weight if weight else 0.0, 1.0 / num_samples]
        return tf.constant(factors, self.precision.parameters)

    def forward(self, inputs: Any) -> Any:
        return self._cast(self.model(inputs, training=False))

    def on_device(self, batch: Batch) -> Batch:
        return in_format(batch, self.precision.parameters)  # `_dealt` puts the rows where they are computed

    def set_training(self, on: bool) -> None:
        return  # each call says it

    def set_learning_rate(self, *factors: float) -> float:
        given = factors if factors[1:] else factors * len(self.parts)
        first, *_ = [part.set_learning_rate(factor) for part, factor in zip(self.parts, given, strict=True)]
        return first

    @property
    def trained(self) -> dict[str, Any]:
        """The variables that are trained, by their name in a checkpoint, in the order of the gradients."""
        names = {id(variable): name for name, variable in variables_of(self.model).items()}
        return {names[id(variable)]: variable for variable in self.model.trainable_variables}

    @property
    def loss_scale(self) -> Any:
        """With fp16: what the loss is multiplied by, a variable of the only optimizer."""
        return self.parts[0].optimizer.dynamic_scale

    def settle(self) -> None:
        return

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        with self.average.in_place() if self.average else nullcontext():
            yield

    def _distributed_step(
        self, inputs: Any, targets: Any, weights: Any, scale: Any, measures: bool, looks: Any
    ) -> tuple[Any, ...]:
        """The loss, the gradient's norm; and with a watcher what it sums up where the scalar `looks` is true."""
        given = (inputs, targets, weights, scale, measures, looks)
        with self.watcher.of_layers.hearing() if self.watcher else nullcontext():
            losses, norms, gradients, layers = self.distribution.run(self._replica_step, args=given)
        local = self.distribution.experimental_local_results
        norm = local(norms)[0]
        if self.average:
            self.average.update(tf.cast(tf.math.is_finite(norm), norm.dtype) if self.scales else 1.0)
        loss = tf.add_n(local(losses))
        if not self.watcher:
            return loss, norm
        of_gradients = self.watcher.of_tensors.of_gradients(looks, [local(each)[0] for each in gradients])
        return loss, norm, *of_gradients, tf.add_n(local(layers))

    def _replica_step(
        self, inputs: Any, targets: Any, weights: Any, scale: Any, measures: bool, looks: Any
    ) -> tuple[Any, ...]:
        loss_scale = tf.convert_to_tensor(self.loss_scale) if self.scales else 1.0
        loss, gradients, layers = self._gradients(inputs, targets, weights, scale * loss_scale, looks)
        if self.num_replicas > 1:
            gradients = self.summed(gradients)
        if (penalties := of_layers.gradients_of_regularizers(self.model, loss_scale)) is not None:
            gradients = [one + other for one, other in zip(gradients, penalties, strict=True)]
        whole = gradients
        norm = tf.zeros((), self.precision.parameters)
        if measures:
            norm = tf.linalg.global_norm(gradients) / loss_scale
        if self.config.clip_norm:
            share = tf.minimum(tf.ones((), norm.dtype), self.config.clip_norm / (norm + 1e-6))
            gradients = [gradient * share for gradient in gradients]
        for part in self.parts:
            part.apply(gradients, self.model.trainable_variables)
        return loss, norm, whole if self.watcher else [], layers

    def _gradients(self, inputs: Any, targets: Any, weights: Any, scale: Any, looks: Any) -> tuple[Any, list[Any], Any]:
        """The sum of a replica's losses, float64 []; the gradients of `scale` times it and what layers add; and the
        sums of layers, piece after piece."""
        count = self.config.accumulation
        if count == 1:
            return self._of_piece(inputs, targets, weights, scale, looks)
        batch = [inputs, targets, weights]
        pieces = trees.mapped(lambda one: tf.reshape(one, [count, one.shape[0] // count, *one.shape[1:]]), batch)

        def add(number: Any, total: Any, sums: list[Any], layers: Any) -> Any:
            piece = trees.mapped(lambda one: one[number], pieces)
            loss, gradients, seen = self._of_piece(*piece, scale, looks)
            sums = [one + other for one, other in zip(sums, gradients, strict=True)]
            return number + 1, total + loss, sums, layers + seen

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in self.model.trainable_variables]
        start = (tf.constant(0), tf.zeros((), tf.float64), zeros, self._no_layers())
        _, *found = tf.while_loop(lambda number, *_: number < count, add, start, parallel_iterations=1)
        return tuple(found)

    def _piece(self, inputs: Any, targets: Any, weights: Any, scale: Any, looks: Any) -> tuple[Any, list[Any], Any]:
        variables = [variable.value for variable in self.model.trainable_variables]
        listening = self.watcher.of_layers.of_pass() if self.watcher else nullcontext([])
        with tf.GradientTape() as tape:
            with listening as heard:
                outputs = self._cast(self.model(inputs, training=True))
            losses: Any = self.recipe.losses(outputs, targets)
            if not tf.is_tensor(losses) or losses.shape != weights.shape:
                wanted = f"one number a sample, shape {list(weights.shape)}, not a mean: reduction='none'"
                raise wrong_answer(self.recipe, "losses", losses, wanted)
            weighted = losses * tf.cast(weights, losses.dtype)
            summed = tf.reduce_sum(weighted) * scale[0]
            for loss in self._losses_of_layers():
                summed += tf.cast(loss, summed.dtype) * weights.shape[0] * scale[1]
        gradients: Any = tape.gradient(summed, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        loss, layers = tf.reduce_sum(tf.cast(weighted, tf.float64)), self._no_layers()
        if self.watcher and heard:
            wanted = tf.logical_or(looks, tf.logical_not(tf.math.is_finite(loss)))  # which layer was it?
            layers = self.watcher.of_layers.of_outputs(wanted, heard, weights > 0)
        # (Of an embedding only some rows, some of them twice: their norm would be another.)
        return loss, [tf.convert_to_tensor(each) for each in gradients], layers

    def _losses_of_layers(self) -> list[Any]:
        """
        Raises:
            InputError: rows fill up the batch, and they would count.
        """
        found, (num_samples, num_rows) = of_layers.losses_of_samples(self.model), self._dealt_out
        if found and num_rows > num_samples:
            raise self._uneven(num_samples)
        self._looks_across = self._looks_across or bool(found)
        return found

    def _no_layers(self) -> Any:
        return tf.zeros((len(self.watcher.layers) if self.watcher else 0, len(LAYER_COLUMNS)), tf.float64)

    def _rows_of(self, num_samples: int, num_global_samples: int) -> int:
        """How many rows each replica gets.

        Raises:
            InputError: rows would fill up a part, and a layer would count them.
        """
        # (By numbers that all processes know: they refuse together, and none waits for another.)
        if not self._looks_across or num_global_samples == self._rows * self.num_replicas:
            return self._rows
        if self.num_replicas == 1 and num_samples % self.config.accumulation == 0:
            return num_samples  # traced once more
        raise self._uneven(num_global_samples)

    def _uneven(self, num_samples: int) -> InputError:
        parts = self.num_replicas * self.config.accumulation
        return InputError(
            f"a batch of {num_samples} samples cannot be dealt into {parts} equal parts, and the model "
            f"{of_layers.why_across(self.model)}. Give drop_last=True, which leaves out a smaller last batch, and a "
            f"global_batch that is a multiple of {parts}; or leave it out of the model."
        )

    def _cast(self, outputs: Tree) -> Tree:
        """In the format of the parameters, what is no whole number."""
        wanted = self.precision.parameters
        return trees.mapped(lambda one: tf.cast(one, wanted) if one.dtype.is_floating else one, outputs)

    def _dealt(self, tree: Tree, num_samples: int, rows: int) -> Tree:
        """So many rows for each replica of this process."""
        return trees.mapped(lambda values: self._dealt_leaf(values, num_samples, rows), tree)

    def _dealt_leaf(self, values: Any, num_samples: int, rows: int) -> Any:
        own = np.asarray(values)[:num_samples] if num_samples else np.asarray(values)[:1]
        missing = rows * self._replicas - len(own)
        filled = np.concatenate([own, np.repeat(own[:1], missing, axis=0)]) if missing else own
        if self._replicas == 1:
            return tf.constant(filled)
        parts = np.split(filled, self._replicas)
        return self.distribution.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    def _weights(self, batch: Batch, num_samples: int, rows: int) -> tuple[NDArray[np.float64], float | None]:
        """The weight of each row, 0 for padding; and the weight of the global batch, if the recipe gives one."""
        own, total = np.ones(num_samples), None
        if isinstance(self.recipe, HasLossWeights):
            own = np.asarray(self.recipe.loss_weights(batch.targets), np.float64)[:num_samples]
            if not (np.isfinite(own).all() and (own >= 0).all()):
                raise wrong_answer(self.recipe, "loss_weights", own, "finite numbers from 0")
            total = float(self.process.sum(own.sum()))
        return np.concatenate([own, np.zeros(rows * self._replicas - len(own))]), total


def variables_of(model: Any) -> dict[str, Any]:
    """By place and name: Keras numbers layers, and variables without a name, by what a process has made before."""
    named = ((re.sub(r"^variable_\d+$", "variable", variable.name), variable) for variable in model.variables)
    return {f"{number:03d}.{name}": variable for number, (name, variable) in enumerate(named)}


def _refuse(config: Config) -> None:
    """
    Raises:
        InputError: a field that these strategies do not have. (The compiler refuses it, too.)
    """
    for field, (without, advice) in REFUSED.items():
        if getattr(config, field) != without:
            raise InputError(f"{field}={getattr(config, field)}: strategies of TensorFlow do not have it. {advice}")
