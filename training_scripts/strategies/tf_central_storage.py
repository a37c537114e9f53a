"""TensorFlow's CentralStorageStrategy: one process, whose variables are on the CPU and whose replicas on the GPUs.

For models whose embeddings do not fit a GPU. https://www.tensorflow.org/api_docs/python/tf/distribute/experimental/CentralStorageStrategy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training.process import Process
from drivetrain.training.tensorflow import devices, strategy
from drivetrain.training_scripts.strategies import tf_mirrored

FRAMEWORK = "tensorflow"
DIMENSIONS = ()
SUMMARY = "TensorFlow's CentralStorageStrategy: variables on the CPU, replicas on the GPUs of one process"


@dataclass(frozen=True, kw_only=True)
class Options(tf_mirrored.Options):
    """Those of tf_mirrored."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy."""

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        cls.refuse_several(process)
        return tf.distribute.experimental.CentralStorageStrategy(devices.replica_devices(options.cpus), "CPU:0")
