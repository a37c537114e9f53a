"""TensorFlow's MultiWorkerMirroredStrategy: processes with a replica each, on any number of hosts.

https://www.tensorflow.org/api_docs/python/tf/distribute/MultiWorkerMirroredStrategy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training.process import Process
from drivetrain.training.tensorflow import cluster, devices, strategy

FRAMEWORK = "tensorflow"
LAUNCHER = "tf_config"
DIMENSIONS = ("replicate",)
SUMMARY = "TensorFlow's MultiWorkerMirroredStrategy: a replica a process"
CHOICES = {"communication": ("auto", "ring", "nccl")}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How gradients travel."""

    communication: str = "auto"
    """The collectives: auto, ring (gRPC) or nccl (GPUs)."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy."""

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        world_size = process.world_size
        if world_size == 1:
            return tf.distribute.get_strategy()
        cluster.workers(world_size)
        devices.take_own_gpu(process)
        implementation = tf.distribute.experimental.CommunicationImplementation[options.communication.upper()]
        communication = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, communication)
