"""The devices of one process: several with a replica each, or its own one."""

from __future__ import annotations

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process


def take_own_gpu(process: Process) -> None:
    """Give each process of a host a GPU of its own: TensorFlow would give it all of them."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and process.local_world_size > 1:
        tf.config.set_visible_devices(gpus[process.local_rank], "GPU")


def replica_devices(cpus: int) -> list[str] | None:
    """So many logical CPUs; None for those that TensorFlow chooses: all GPUs, or the CPU.

    Raises:
        InputError: TensorFlow has computed on another number of them already.
    """
    if not cpus:
        return None
    cpu = tf.config.list_physical_devices("CPU")[0]
    configured = [tf.config.LogicalDeviceConfiguration()] * cpus
    try:
        tf.config.set_logical_device_configuration(cpu, configured)
    except RuntimeError as error:  # TensorFlow has computed already
        if len(tf.config.list_logical_devices("CPU")) != cpus:
            raise InputError(f"cpus={cpus}: {error}. Start another process.") from None
    return [f"CPU:{number}" for number in range(cpus)]
