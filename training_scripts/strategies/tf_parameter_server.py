"""TensorFlow's ParameterServerStrategy: a chief hands out batches, workers compute, servers hold the variables.

Asynchronous within a global batch: each worker's part is a step of its own, taken when its gradient is there. The chief
waits for all parts before the next batch, so that a checkpoint is of whole batches, and each sample is learnt from once
an epoch. No two runs are equal. https://www.tensorflow.org/api_docs/python/tf/distribute/ParameterServerStrategy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.config import Config
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, Recipe
from drivetrain.training.strategy import Step
from drivetrain.training.tensorflow import servers, strategy

FRAMEWORK = "tensorflow"
LAUNCHER = "tf_config"
ROLES = "chief=1,worker=*,ps=1"
DIMENSIONS = ()
SUMMARY = "TensorFlow's ParameterServerStrategy: asynchronous workers, variables on a server; no two runs are equal"
REFUSED = {
    "ema_decay": (0.0, "Parameters change while they would be averaged. Leave it out, or use 'tf_multi_worker'."),
    "profile": (0, "It would record the chief, and workers compute. Leave it out, or use 'tf_multi_worker'."),
    "precision": ("fp16", "The workers would scale their losses apart. Use bf16, or 'tf_multi_worker'."),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """None."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy. Runs in the chief."""

    is_synchronous = False

    def __init__(self, recipe: Recipe, model: Any, process: Process, config: Config, options: Any) -> None:
        for field in ("ema_decay", "profile"):
            if given := getattr(config, field):
                raise InputError(f"{field}={given} under {self.name!r}: {REFUSED[field][1]}")
        if config.precision == "fp16":
            raise InputError(f"precision fp16 under {self.name!r}: {REFUSED['precision'][1]}")
        super().__init__(recipe, model, process, config, options)
        self._coordinator: Any = servers.coordinator_of(self.distribution)
        self._workers = servers.num_workers()
        self._rows = -(-config.global_batch // (self._workers * config.accumulation)) * config.accumulation

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        servers.check_chief(process.world_size)
        return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())

    def replica(self) -> Any:
        # (Workers have no number within a step, and may read a generator's state at the same moment.)
        return tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int, measure: bool = False) -> Step:
        """A global batch: each worker takes a step with the mean over its part. The norm is the mean of the parts'
        norms."""
        weights, total = self._weights(batch, num_samples, num_samples)
        measures = measure or bool(self.config.clip_norm)
        given = trees.mapped(np.asarray, (batch.inputs, batch.targets))
        results = []
        for own in np.array_split(np.arange(num_samples), min(self._workers, num_samples)):
            rows = self._rows_of(len(own), len(own) * self._workers)
            part = [self._dealt(tree, len(own), rows) for tree in trees.mapped(lambda one, own=own: one[own], given)]
            weighs = np.concatenate([weights[own], np.zeros(rows - len(own))])
            self._dealt_out = len(own), rows
            constants = (tf.constant(weighs), self._scale(weighs.sum(), len(own)))
            results.append(self._coordinator.schedule(self._step, args=(*part, *constants, measures, None)))
        self._coordinator.join()
        losses, norms = zip(*(result.fetch() for result in results), strict=True)
        return Step(tf.constant(np.sum(losses)), tf.constant(np.mean(norms)) if measures else None, total)
