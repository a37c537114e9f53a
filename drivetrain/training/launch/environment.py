"""The variables that every process gets, each with its reason. What the user has set stays."""

from __future__ import annotations

import os
from collections.abc import Mapping

from drivetrain.training.launch.cluster import Cluster

# torchrun takes its options from these, too; the launcher says them all, and a left-over one would contradict it.
_TORCHRUN_OPTIONS = "PET_"


def process_environment(
    cluster: Cluster, environment: Mapping[str, str], *, interface: str = "", accelerators: int = 0
) -> dict[str, str]:
    """`environment` with what every process needs.

    Args:
        interface: the network interface over which the hosts reach each other; "" where none was found.
        accelerators: GPUs of this host.
    """
    defaults = {name: value for name, (value, _) in defaults_of(cluster, interface, accelerators).items()}
    kept = {name: value for name, value in environment.items() if not name.startswith(_TORCHRUN_OPTIONS)}
    return {**defaults, **kept}


def defaults_of(cluster: Cluster, interface: str, accelerators: int) -> dict[str, tuple[str, str]]:
    """Variable -> (value, reason)."""
    cores = len(os.sched_getaffinity(0))
    found = {
        "OMP_NUM_THREADS": (
            str(max(1, cores // max(1, cluster.processes))),
            "the cores shared out: by default each process takes all of them, and they fight",
        ),
        "GOMP_SPINCOUNT": (
            "10000",
            "threads that wait sleep after some 10 us: where cores are shared, spinning keeps the core from the thread "
            "that is waited for",
        ),
        "CUBLAS_WORKSPACE_CONFIG": (":4096:8", "cuBLAS gives the same bits in every run"),
        "TORCH_FR_BUFFER_SIZE": ("512", "torch keeps the last collectives, from which a rank that hangs is told"),
        "PYTHONFAULTHANDLER": ("1", "a crash in native code leaves a Python traceback"),
    }
    if interface:
        found["GLOO_SOCKET_IFNAME"] = (
            interface,
            "gloo otherwise looks up the host's own name, which in many containers does not resolve",
        )
        # `=` asks for exactly this one; without it eth1 would also match eth10.
        found["NCCL_SOCKET_IFNAME"] = (f"={interface}", "NCCL otherwise takes the first that is not docker's or lo")
    if accelerators:
        found["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = (
            "1",
            "a collective that times out ends its process; NCCL alone would wait for ever",
        )
        found["TORCH_NCCL_DUMP_ON_TIMEOUT"] = ("0", "the flight recorder writes pickles, which nothing here reads")
    if len(cluster.hosts) > 1 and interface == "lo":
        found["NCCL_IB_DISABLE"] = ("1", "hosts that are only names of this machine have no InfiniBand between them")
    return found
