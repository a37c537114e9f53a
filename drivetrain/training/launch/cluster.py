"""The launcher's cluster, read from the platform's contract (`platforms/`).

These variables come before what a platform says, and the launcher's options come before them:

    DRIVETRAIN_HOSTS              names or addresses of all hosts, in order, separated by commas
    DRIVETRAIN_HOST               this host's
    DRIVETRAIN_PROCESSES          processes a host (0 or unset: the platform's, else one a GPU, else one)
    DRIVETRAIN_PORT               where the first host listens (several hosts only)
    DRIVETRAIN_NETWORK_INTERFACE  the interface that joins the hosts (default: the platform's, else the one whose route
                                  leads to them)
    DRIVETRAIN_NODES              MIN:MAX hosts: the job starts with MIN of them and takes others in as they come

All are optional: a plain shell is one host.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training import plugins

# Inside a job's own network no other job can hold it. Where jobs share a machine the start file gives another.
DEFAULT_PORT = 29500
LOCALHOST = "127.0.0.1"
BASE_VARIABLE, BASE = "SAGEMAKER_BASE_DIR", "/opt/ml"


@dataclass(frozen=True)
class Cluster:
    """`processes` on each of `hosts`; this one is `hosts[host_index]`.

    `interface` is "" where nobody named one. `min_hosts` is how many must be there to start (0: all). `job` tells jobs
    apart that meet at the same port. `contract` says, for people, who told us.
    """

    hosts: tuple[str, ...] = (LOCALHOST,)
    host_index: int = 0
    processes: int = 1
    port: int = DEFAULT_PORT
    interface: str = ""
    min_hosts: int = 0
    job: str = "drivetrain"
    contract: str = "a plain shell"

    @property
    def host(self) -> str:
        return self.hosts[self.host_index]

    @property
    def world_size(self) -> int:
        return len(self.hosts) * self.processes

    @property
    def is_elastic(self) -> bool:
        return 0 < self.min_hosts < len(self.hosts)


def read_cluster(
    environment: Mapping[str, str],
    *,
    base: Path | None = None,
    processes: int = 0,
    nodes: str = "",
    port: int = 0,
    interface: str = "",
) -> Cluster:
    """The cluster that `environment` and the files below `base` describe; what is given here, and not 0 or "", first.

    Raises:
        InputError: a variable or a field that cannot be, named with its value.
    """
    base = base or Path(environment.get(BASE_VARIABLE, BASE))
    contracts = [plugins.load("platforms", name, kind="platform") for name in plugins.names("platforms")]
    found = next(
        cluster
        for contract in sorted(contracts, key=lambda contract: contract.ORDER)
        if (cluster := contract.read(environment, base)) is not None
    )
    gpus = num_gpus(environment)
    says_nothing = environment.get("DRIVETRAIN_PROCESSES", "").strip() == "0"  # as --processes 0 does
    named = 0 if says_nothing else positive(environment, "DRIVETRAIN_PROCESSES")
    processes = processes or named or found.processes or max(gpus, 1)
    if processes < 0:
        raise InputError(f"processes={processes}; allowed are whole numbers from 1, or 0 for one a GPU.")
    if gpus and processes > gpus:
        raise InputError(f"{processes} processes, but this host has {gpus} GPUs and each process needs its own.")
    port = port or positive(environment, "DRIVETRAIN_PORT") or found.port
    if not 0 < port < 65536:
        raise InputError(f"DRIVETRAIN_PORT={port}; allowed are ports from 1 to 65535.")
    cluster = replace(
        found,
        processes=processes,
        port=port,
        interface=interface or environment.get("DRIVETRAIN_NETWORK_INTERFACE") or found.interface,
    )
    nodes = nodes or environment.get("DRIVETRAIN_NODES", "").strip()
    return _with_nodes(cluster, nodes) if nodes else cluster


def _with_nodes(cluster: Cluster, nodes: str) -> Cluster:
    low, high = node_range("DRIVETRAIN_NODES", nodes)
    if high != len(cluster.hosts):
        raise InputError(
            f"DRIVETRAIN_NODES={nodes!r}, but {cluster.contract} names {len(cluster.hosts)} "
            f"host{'s' * (len(cluster.hosts) > 1)} ({', '.join(cluster.hosts)}). MAX is their number."
        )
    return replace(cluster, min_hosts=low)


def node_range(name: str, text: str) -> tuple[int, int]:
    """`2` or `1:4` as (least, most) hosts."""
    match = re.fullmatch(r"(\d+)(?::(\d+))?", text.strip(), re.ASCII)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < low <= high:
        raise InputError(f"{name}={text!r}; allowed are a number of hosts from 1, or MIN:MAX with MIN <= MAX.")
    return low, high


def num_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """NVIDIA GPUs that processes may use, without importing a framework to ask."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    present = sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in devices.glob("nvidia*"))
    if visible is None or not present:
        return present
    return min(present, sum(bool(name) and name != "-1" for name in visible.split(",")))


def positive(environment: Mapping[str, str], name: str, *, default: int = 0) -> int:
    """The whole number from 1 that a variable holds; `default` where it is unset or empty."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"{name}={text!r}; allowed are whole numbers from 1.")
    return int(text)


def member_of(hosts: tuple[str, ...], host: str, *, names: tuple[str, str]) -> int:
    """The place of `host` among `hosts`; `names` are what each was read from.

    Raises:
        InputError: the hosts are not all different, or this host is not one of them.
    """
    if not hosts or not all(hosts) or len(set(hosts)) != len(hosts):
        raise InputError(f"{names[0]}={','.join(hosts)!r}; allowed are different host names, joined by commas.")
    if host not in hosts:
        raise InputError(f"{names[1]}={host!r} is not one of {names[0]}={','.join(hosts)!r}.")
    return hosts.index(host)


def numbers_of(file: Path) -> dict[str, float]:
    """The numbers that a program's first process wrote; none on the other hosts.

    Raises:
        InputError: this is the first host, and there are none: the program's own code ended its process.
    """
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    if read_cluster(os.environ).host_index == 0:
        raise InputError(
            "the program ended without a result and without an error: the model's own code, or a library of it, ended "
            "the process. Look for os._exit there."
        )
    return {}
