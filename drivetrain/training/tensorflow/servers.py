"""The processes of a training with parameter servers: a chief that trains, and servers that it uses."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.base.errors import InputError
from drivetrain.training.tensorflow import cluster

_coordinators: dict[int, Any] = {}


def serve() -> NoReturn:
    """Be a worker or a parameter server until the launcher ends this process, which it does when the chief is done."""
    # A chief that is gone, or another server, is an error and not waited for.
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        start=True,
    )
    server.join()
    raise AssertionError("a server never ends")


def check_chief(world_size: int) -> None:
    """
    Raises:
        InputError: this process is no chief of workers and servers.
    """
    if world_size > 1 or cluster.role() != "chief":
        raise InputError(
            "strategy 'tf_parameter_server' runs in a chief, beside workers and a parameter server, and TF_CONFIG has "
            "none. Start three processes or more with launcher=tf_config (one of them is the server), or use strategy "
            "'tf_single'."
        )


def num_workers() -> int:
    return len(cluster.named()["worker"])


def coordinator_of(distribution: Any) -> Any:
    """The one coordinator of a distribution."""
    if id(distribution) not in _coordinators:
        _coordinators[id(distribution)] = tf.distribute.coordinator.ClusterCoordinator(distribution)
    return _coordinators[id(distribution)]
