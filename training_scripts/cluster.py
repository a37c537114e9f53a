"""What the launcher knows of the cluster: the variables that a start file prepares from its platform's contract.

    DRIVETRAIN_HOSTS              names or addresses of all hosts, in order, separated by commas
    DRIVETRAIN_HOST               this host's
    DRIVETRAIN_PROCESSES          processes a host (default: one a GPU, else one)
    DRIVETRAIN_PORT               where the first host listens (several hosts only)
    DRIVETRAIN_NETWORK_INTERFACE  the interface that joins the hosts

All are optional: a plain shell is one host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drivetrain.training_scripts.errors import InputError

# Inside a job's own network no other job can hold it. Where jobs share a machine the start file gives another.
DEFAULT_PORT = 29500
LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
    """`processes` on each of `hosts`; this one is `hosts[host_index]`. `interface` is "" where nobody named one."""

    hosts: tuple[str, ...] = (LOCALHOST,)
    host_index: int = 0
    processes: int = 1
    port: int = DEFAULT_PORT
    interface: str = ""

    @property
    def host(self) -> str:
        return self.hosts[self.host_index]

    @property
    def world_size(self) -> int:
        return len(self.hosts) * self.processes


def read_cluster(environment: Mapping[str, str], *, processes: int = 0) -> Cluster:
    """The cluster that `environment` describes; `processes` (a host), where not 0, comes first.

    Raises:
        InputError: a variable that cannot be, named with its value.
    """
    hosts = tuple(host.strip() for host in environment.get("DRIVETRAIN_HOSTS", LOCALHOST).split(","))
    if not all(hosts) or len(set(hosts)) != len(hosts):
        raise InputError(f"DRIVETRAIN_HOSTS={','.join(hosts)!r}; allowed are different host names, joined by commas.")
    host = environment.get("DRIVETRAIN_HOST", hosts[0] if len(hosts) == 1 else "")
    if host not in hosts:
        raise InputError(f"DRIVETRAIN_HOST={host!r} is not one of DRIVETRAIN_HOSTS={','.join(hosts)!r}.")
    gpus = num_gpus(environment)
    processes = processes or _positive(environment, "DRIVETRAIN_PROCESSES", default=max(gpus, 1))
    if processes < 0:
        raise InputError(f"processes={processes}; allowed are whole numbers from 1, or 0 for one a GPU.")
    if gpus and processes > gpus:
        raise InputError(f"{processes} processes, but this host has {gpus} GPUs and each process needs its own.")
    return Cluster(
        hosts=hosts,
        host_index=hosts.index(host),
        processes=processes,
        port=_positive(environment, "DRIVETRAIN_PORT", default=DEFAULT_PORT),
        interface=environment.get("DRIVETRAIN_NETWORK_INTERFACE", ""),
    )


def num_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """NVIDIA GPUs that processes may use, without importing a framework to ask."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    present = sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in devices.glob("nvidia*"))
    if visible is None or not present:
        return present
    return min(present, sum(bool(name) and name != "-1" for name in visible.split(",")))


def process_environment(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with what every process needs; what the user has set stays.

    OMP_NUM_THREADS: the cores shared out, since by default each process takes all of them and they fight.
    GLOO_/NCCL_SOCKET_IFNAME: the interface that joins the hosts; gloo otherwise looks up the host's own name, which in
    many containers does not resolve. One host alone talks over the loopback interface.
    CUBLAS_WORKSPACE_CONFIG: cuBLAS then gives the same bits in every run.
    PYTHONFAULTHANDLER: a crash in native code leaves a Python traceback.
    """
    cores = len(os.sched_getaffinity(0))
    interface = cluster.interface or ("lo" if len(cluster.hosts) == 1 else "")
    defaults = {
        "OMP_NUM_THREADS": str(max(1, cores // cluster.processes)),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTHONFAULTHANDLER": "1",
    }
    if interface:
        defaults |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    return {**defaults, **environment}


def _positive(environment: Mapping[str, str], name: str, *, default: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"{name}={text!r}; allowed are whole numbers from 1.")
    return int(text)
