"""TF_CONFIG: a cluster as TensorFlow reads it, and what each process is in it.

https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
https://www.tensorflow.org/tutorials/distribute/parameter_server_training
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster

CHIEF, WORKER, SERVER, EVALUATOR = "chief", "worker", "ps", "evaluator"
# The order of the processes: the first worker, or the chief, is process 0.
ROLES = (CHIEF, WORKER, SERVER, EVALUATOR)
# Of workers: all processes that have no other role.
REST = 0
_EXAMPLE = "chief=1,worker=2,ps=1"


def read_roles(text: str) -> dict[str, int]:
    """`chief=1,worker=2,ps=1` as role -> number of processes, in the order of ROLES; empty for empty text. `worker=*`
    (REST) is as many as are left.

    Raises:
        InputError: another form, an unknown role, or roles that make no cluster.
    """
    if not text.strip():
        return {}
    found: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([a-z]+)\s*=\s*([1-9]\d{0,3}|\*)\s*", part, re.ASCII)
        rest = match is not None and match[2] == "*"
        if match is None or match[1] not in ROLES or match[1] in found or (rest and match[1] != WORKER):
            raise InputError(
                f"roles={text!r}; allowed are {', '.join(ROLES)}, each once and with a number from 1, such as "
                f"{_EXAMPLE}."
            )
        found[match[1]] = REST if rest else int(match[2])
    if WORKER not in found:
        raise InputError(f"roles={text!r} has no worker, and nobody would compute. Example: {_EXAMPLE}")
    if SERVER in found and CHIEF not in found:
        raise InputError(f"roles={text!r} has parameter servers and no chief to hand out the steps. Add chief=1.")
    for role in (CHIEF, EVALUATOR):
        if found.get(role, 1) > 1:
            raise InputError(f"roles={text!r}: TensorFlow knows one {role} at most. Give {role}=1, or leave it out.")
    return {role: found[role] for role in ROLES if role in found}


def read_tf_config(environment: Mapping[str, str]) -> dict[str, Any]:
    """Read TF_CONFIG; empty if it is missing or no JSON object."""
    try:
        found: object = json.loads(environment.get("TF_CONFIG", ""))
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def refuse_another_cluster(environment: Mapping[str, str], number: int) -> None:
    """
    Raises:
        InputError: TF_CONFIG was set and names another number of processes. Ours would replace it, and each of its
            workers would train alone.
    """
    cluster = read_tf_config(environment).get("cluster")
    if not isinstance(cluster, dict):
        return
    named = sum(len(each) for each in cast("dict[str, Any]", cluster).values() if isinstance(each, list))
    if named != number:
        raise InputError(
            f"TF_CONFIG={environment['TF_CONFIG'][:200]} names {named} processes, and this launcher starts {number} "
            "and writes TF_CONFIG itself. Say by DRIVETRAIN_HOSTS, DRIVETRAIN_HOST and --processes which there are, "
            "and remove TF_CONFIG."
        )


def filled(roles: Mapping[str, int], number: int) -> dict[str, int]:
    """The roles of so many processes, with the number of the workers that are the rest.

    Raises:
        InputError: no worker would be left.
    """
    if roles.get(WORKER) != REST:
        return dict(roles)
    others = sum(roles.values())
    if number <= others:
        named = ", ".join(role for role in roles if role != WORKER)
        raise InputError(
            f"{number} process{'es' * (number > 1)} leave no worker beside {named}. Start {others + 1} or more."
        )
    return {**roles, WORKER: number - others}


def with_processes(cluster: Cluster, roles: Mapping[str, int], asked: int) -> Cluster:
    """The cluster with as many processes a host as its roles need.

    Args:
        asked: processes per host as requested; 0 if not given.

    Raises:
        InputError: the processes cannot be shared out to the hosts, or others are asked for.
    """
    if not roles:
        return cluster
    roles = filled(roles, cluster.world_size)
    needed, hosts = sum(roles.values()), len(cluster.hosts)
    given = ",".join(f"{role}={number}" for role, number in roles.items())
    if cluster.is_elastic:
        raise InputError(f"roles={given}: each role has its process from the start. Leave the range of hosts out.")
    if needed % hosts or (asked and asked * hosts != needed):
        on = f"{hosts} host{'s' * (hosts > 1)}"
        has = f"{on} x {asked} process{'es' * (asked > 1)}" if asked else on
        raise InputError(
            f"roles={given} are {needed} processes, and the job has {has}. Give roles whose sum is the number of all "
            "processes, and leave processes out."
        )
    return replace(cluster, processes=needed // hosts)


def addresses_of(cluster: Cluster) -> list[str]:
    """The address of each process, in the order of hosts, then of processes: on its host at `cluster.port` + its local
    rank, so that every process knows every address without asking.

    Raises:
        InputError: a port above 65535.
    """
    if cluster.port + cluster.processes - 1 > 65535:
        raise InputError(f"port={cluster.port} and {cluster.processes} processes: the last port would be above 65535.")
    return [f"{host}:{cluster.port + local}" for host in cluster.hosts for local in range(cluster.processes)]


def tasks(number: int, roles: Mapping[str, int]) -> list[tuple[str, int]]:
    """The role of each of `number` processes, and its number in that role. Without roles all are workers; TensorFlow
    takes the first one for the chief."""
    return [(role, index) for role, count in (roles or {WORKER: number}).items() for index in range(count)]


def tf_config(addresses: Sequence[str], rank: int, roles: Mapping[str, int]) -> str:
    """The JSON for the process `rank`. An evaluator is no part of the cluster: nobody connects to it."""
    listed = tasks(len(addresses), roles)
    cluster: dict[str, list[str]] = {}
    for address, (role, _) in zip(addresses, listed, strict=True):
        if role != EVALUATOR:
            cluster.setdefault(role, []).append(address)
    role, index = listed[rank]
    # As SageMaker's container writes it (sagemaker-tensorflow-training 20.5.0, training.py).
    return json.dumps({"cluster": cluster, "environment": "cloud", "task": {"type": role, "index": index}})
