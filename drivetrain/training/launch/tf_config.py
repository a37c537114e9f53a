"""TF_CONFIG: a cluster as TensorFlow reads it.

https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
"""

from __future__ import annotations

import json

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster


def tf_config(cluster: Cluster, local_rank: int, *, parameter_servers: int = 0) -> str:
    """The JSON for the process `local_rank` of this host.

    Process i of all (in the order of hosts, then of processes) listens on its host at `cluster.port` + its local rank,
    so every process knows every address without asking. Workers come first; process 0 is the first worker, which
    TensorFlow takes for the chief. With `parameter_servers` the last so many processes are servers and process 0 is
    the chief (the coordinator) beside the workers.

    Raises:
        InputError: no worker would be left, or a port above 65535.
    """
    addresses = [f"{host}:{cluster.port + local}" for host in cluster.hosts for local in range(cluster.processes)]
    if cluster.port + cluster.processes - 1 > 65535:
        raise InputError(f"port={cluster.port} and {cluster.processes} processes: the last port would be above 65535.")
    index = cluster.host_index * cluster.processes + local_rank
    if not parameter_servers:
        return _text({"worker": addresses}, "worker", index)
    num_workers = len(addresses) - parameter_servers - 1
    if num_workers < 1:
        raise InputError(
            f"parameter_servers={parameter_servers} of {len(addresses)} processes leaves no worker beside the chief."
        )
    parts = {"chief": addresses[:1], "worker": addresses[1 : 1 + num_workers], "ps": addresses[1 + num_workers :]}
    for name, members in parts.items():
        if index < len(members):
            return _text(parts, name, index)
        index -= len(members)
    raise AssertionError("every process is in one of the parts")


def _text(cluster: dict[str, list[str]], kind: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
