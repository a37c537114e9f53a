"""The processes of a training under TensorFlow: those that TF_CONFIG names, and the group that they make.

TensorFlow is not imported: what is wrong with a cluster is known before it would wait for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from drivetrain.base.errors import InputError
from drivetrain.training.errors import LostRanksError
from drivetrain.training.group import Group, tcp
from drivetrain.training.launch.tf_config import read_tf_config
from drivetrain.training.process import Process

ADVICE = "Start the processes with launcher=tf_config"


def join(process: Process, timeout: float, environment: Mapping[str, str] = os.environ) -> Group:
    """The group of all processes, over plain TCP; gradients have TensorFlow's own connections.

    Raises:
        InputError: nobody says where rank 0 is, or TF_CONFIG is of another number of processes.
        LostRanksError: some did not come within `timeout` seconds.
    """
    try:
        address, port = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
    except KeyError as error:
        raise InputError(f"{error.args[0]} is not set. {ADVICE}.") from None
    named = workers(process.world_size, environment) if "TF_CONFIG" in environment else []
    try:
        return tcp.join(process.rank, process.world_size, address, port, timeout)
    except LostRanksError as error:
        missing = ", ".join(f"worker {rank} at {named[rank]}" for rank in error.ranks if rank < len(named))
        if not missing:
            raise
        raise LostRanksError(
            error.ranks,
            f"{error}. TF_CONFIG names {missing}, which did not come. Start it, or take it out of TF_CONFIG's cluster "
            "and out of WORLD_SIZE; launcher=tf_config writes both.",
            timed_out=error.timed_out,
        ) from None


def named(environment: Mapping[str, str] = os.environ) -> dict[str, list[str]]:
    """TF_CONFIG's cluster: role -> addresses; empty without one."""
    return read_tf_config(environment).get("cluster", {})


def role(environment: Mapping[str, str] = os.environ) -> str:
    """The role of this process in a cluster with parameter servers: chief, worker or ps; "" in any other cluster."""
    return read_tf_config(environment).get("task", {}).get("type", "") if "ps" in named(environment) else ""


def workers(world_size: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The addresses of TF_CONFIG's workers, by rank.

    Raises:
        InputError: TF_CONFIG is no cluster with so many workers.
    """
    text = environment.get("TF_CONFIG", "")
    try:
        named = json.loads(text)["cluster"]["worker"]
    except (ValueError, KeyError, TypeError):
        named = None
    if not isinstance(named, list):
        raise InputError(f"TF_CONFIG={text[:100]!r} names no workers. {ADVICE}.")
    if len(named) != world_size:
        raise InputError(
            f"TF_CONFIG names {len(named)} worker{'s' * (len(named) != 1)}, and {world_size} processes were started "
            f"(WORLD_SIZE). {ADVICE}, which names each, or correct TF_CONFIG's cluster."
        )
    return named
