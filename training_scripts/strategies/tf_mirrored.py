"""TensorFlow's MirroredStrategy: one process drives all GPUs of a host, or some logical CPUs, each with a replica.

https://www.tensorflow.org/api_docs/python/tf/distribute/MirroredStrategy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.tensorflow import strategy

FRAMEWORK = "tensorflow"
DIMENSIONS = ()
SUMMARY = "TensorFlow's MirroredStrategy: replicas on the GPUs of one process"
BOUNDS = {"cpus": (0, None)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where the replicas are."""

    cpus: int = 0
    """Logical CPUs with a replica each, where there is no GPU; 0 for the one that there is."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy."""

    @classmethod
    def distribute(cls, process: Process, options: Any) -> Any:
        cls.refuse_several(process)
        if options.cpus:
            cpu = tf.config.list_physical_devices("CPU")[0]
            configured = [tf.config.LogicalDeviceConfiguration()] * options.cpus
            try:
                tf.config.set_logical_device_configuration(cpu, configured)
            except RuntimeError as error:  # TensorFlow has computed already
                if len(tf.config.list_logical_devices("CPU")) != options.cpus:
                    raise InputError(f"cpus={options.cpus}: {error}. Start another process.") from None
            return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(options.cpus)])
        return tf.distribute.MirroredStrategy()
