"""TensorFlow's MultiWorkerMirroredStrategy: processes with a replica each, on any number of hosts.

https://www.tensorflow.org/api_docs/python/tf/distribute/MultiWorkerMirroredStrategy
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.tensorflow import strategy

FRAMEWORK = "tensorflow"
LAUNCHER = "tf_config"
DIMENSIONS = ("replicate",)
SUMMARY = "TensorFlow's MultiWorkerMirroredStrategy: a replica a process"
CHOICES = {"communication": ("auto", "ring", "nccl")}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How gradients travel."""

    communication: str = "auto"
    """Whose collectives: auto, ring (gRPC) or nccl (GPUs)."""

    def __post_init__(self) -> None:
        if self.communication not in CHOICES["communication"]:
            raise ValueError(f"communication={self.communication!r}; allowed are auto, ring, nccl")


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy."""

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        world_size = process.world_size
        if world_size == 1:
            return tf.distribute.get_strategy()
        workers = _workers()
        if len(workers) != world_size:
            raise InputError(
                f"TF_CONFIG names {len(workers)} workers, and {world_size} processes were started. Start them with "
                "launcher=tf_config, which names each, or correct its cluster."
            )
        implementation = tf.distribute.experimental.CommunicationImplementation[options.communication.upper()]
        communication = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, communication)


def _workers() -> list[str]:
    """
    Raises:
        InputError: TF_CONFIG is no cluster with workers.
    """
    text = os.environ.get("TF_CONFIG", "")
    try:
        workers = json.loads(text)["cluster"]["worker"]
    except (ValueError, KeyError, TypeError):
        workers = None
    if not isinstance(workers, list):
        raise InputError(f"TF_CONFIG={text[:100]!r} names no workers. Start the processes with launcher=tf_config.")
    return workers
