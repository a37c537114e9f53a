"""Horovod under TensorFlow: every process holds the whole Keras model, and Horovod adds up the gradients.

A. Sergeev and M. Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018
(https://arxiv.org/abs/1802.05799). Gradients travel in fixed groups (`grouped_allreduce`), within the graph of a step:
what is ready is sent while the rest is computed. Horovod's `DistributedGradientTape` does the same for each gradient by
itself, so that how they are fused depends on the clock; its optimizers for Keras 3 do not work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training import horovod as shared
from drivetrain.training.config import Config
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe
from drivetrain.training.tensorflow import devices, strategy

FRAMEWORK = "tensorflow"
LAUNCHER = "horovodrun"
DIMENSIONS = ("replicate",)
NEEDS = ("horovod",)
SUMMARY = "TensorFlow: every process holds the model, Horovod adds up gradients"
CHOICES = {"compression": ("none", "fp16")}
BOUNDS = {"group_mb": (0.000001, 1_000_000)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of Horovod. What tunes Horovod itself stays in its variables, such as HOROVOD_CYCLE_TIME."""

    group_mb: float = 25.0
    """Gradients travel together until they are this large."""
    compression: str = "none"
    """Send gradients in fp16, half the bytes of fp32, rounded; or none."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy. With one process it is the same as `tf_single`."""

    options: Options

    def __init__(self, recipe: Recipe, model: Any, process: Process, config: Config, options: Options) -> None:
        super().__init__(recipe, model, process, config, options)
        if process.world_size == 1:
            return
        self._horovod = shared.start("tensorflow", process)
        frozen = {id(each) for layer in self.model._flatten_layers() if not layer.trainable for each in layer.variables}
        self._statistics = [
            each
            for each in self.model.non_trainable_variables
            if id(each) not in frozen and keras.backend.is_float_dtype(each.dtype)
        ]
        """Statistics that layers keep of the samples that they have seen, such as BatchNormalization's means."""
        tf.function(self._start_from_main, autograph=False)()

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        if process.world_size > 1:
            devices.take_own_gpu(process)
            shared.start("tensorflow", process)
        return tf.distribute.get_strategy()

    @property
    def num_replicas(self) -> int:
        return self.process.world_size

    def replica(self) -> int:
        return self.process.rank

    def _start_from_main(self) -> None:
        """All ranks begin with rank 0's model and optimizer."""
        of_optimizers = [each for part in self.parts for each in part.optimizer.variables]
        # (By names of our own: `broadcast_variables` takes those of the variables, which Keras numbers by what a
        # process has made before. Rank 0, which saves models, has made more; the others would wait for it.)
        for number, variable in enumerate((*self.model.variables, *of_optimizers)):
            first = self._horovod.broadcast(variable.value, 0, name=f"start.{number}", ignore_name_scope=True)
            variable.assign(first)

    def summed(self, gradients: list[Any]) -> list[Any]:
        statistics = [tf.convert_to_tensor(each) for each in self._statistics]
        means = self._sums("statistics", statistics, self._horovod.Compression.none)
        for variable, mean in zip(self._statistics, means, strict=True):
            variable.assign(mean / self.num_replicas)
        return self._sums("gradients", gradients, getattr(self._horovod.Compression, self.options.compression))

    def _sums(self, name: str, tensors: Sequence[Any], compression: Any) -> list[Any]:
        """The sum of each tensor over all ranks, in groups that are the same on each."""
        sums = list(tensors)
        sizes = [(each.shape.num_elements() * each.dtype.size, each.dtype) for each in tensors]
        for number, group in enumerate(shared.in_groups(sizes, self.options.group_mb)):
            came = self._horovod.grouped_allreduce(
                [tensors[place] for place in group],
                op=self._horovod.Sum,
                compression=compression,
                name=f"{name}.{number}",
                ignore_name_scope=True,  # by their names the ranks know what belongs together
            )
            for place, total in zip(group, came, strict=True):
                sums[place] = total
        return sums
