"""TensorFlow's MirroredStrategy: one process drives all GPUs of a host, or some logical CPUs, each with a replica.

https://www.tensorflow.org/api_docs/python/tf/distribute/MirroredStrategy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training.process import Process
from drivetrain.training.tensorflow import devices, strategy

FRAMEWORK = "tensorflow"
DIMENSIONS = ()
SUMMARY = "TensorFlow's MirroredStrategy: replicas on the GPUs of one process"
BOUNDS = {"cpus": (0, None)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the replicas' devices."""

    cpus: int = 0
    """Logical CPUs with a replica each, on a machine without a GPU; 0 for the machine's one."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy."""

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        cls.refuse_several(process)
        return tf.distribute.MirroredStrategy(devices.replica_devices(options.cpus))
