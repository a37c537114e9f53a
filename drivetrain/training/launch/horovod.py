"""How Horovod's processes meet without MPI: the variables and the server that horovodrun has for them.

https://horovod.readthedocs.io/en/v0.28.1/ (horovod/runner/gloo_run.py). Horovod itself is needed for the server alone.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from drivetrain.base.errors import InputError

ADDRESS, PORT = "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"


def place(rank: int, world_size: int, processes: int) -> dict[str, str]:
    """Variables of a process's place among `processes` on each host; ranks are in the order of the hosts."""
    values = {
        "HOSTNAME": _host(rank, processes),
        "RANK": rank,
        "SIZE": world_size,
        "LOCAL_RANK": rank % processes,
        "LOCAL_SIZE": processes,
        "CROSS_RANK": rank // processes,
        "CROSS_SIZE": world_size // processes,
    }
    return {f"HOROVOD_{name}": str(value) for name, value in values.items()}


def meeting(address: str, port: int, interface: str) -> dict[str, str]:
    """Variables of the address at which processes meet, and of the network interface ("": by the host's name)."""
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        ADDRESS: address,
        PORT: str(port),
        "HOROVOD_GLOO_IFACE": interface,
    }


@contextmanager
def rendezvous(world_size: int, processes: int, port: int = 0) -> Generator[int]:
    """Keep the processes' addresses for each other, within the block; gives the port (0: any that is free).

    Raises:
        InputError: Horovod is not installed.
        OSError: another process listens there.
    """
    try:
        from horovod.runner.common.util.hosts import SlotInfo  # pyright: ignore[reportMissingImports]  # (built here)
        from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(refusal(str(error), "FRAMEWORK")) from error
    server = RendezvousHTTPServer(("", port), RendezvousHandler, 0)
    hosts = world_size // processes
    # hostname, rank, local_rank, cross_rank, size, local_size, cross_size
    slots = [
        SlotInfo(_host(rank, processes), rank, rank % processes, rank // processes, world_size, processes, hosts)
        for rank in range(world_size)
    ]
    server.init(slots)
    thread = threading.Thread(target=server.serve_forever, name="horovod-rendezvous", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refusal(reason: str, framework: str) -> str:
    """Advice where Horovod is not installed, or not for `framework`."""
    return (
        f"the package horovod is needed ({reason}). PyPI has its source alone, which does not compile with the "
        f"frameworks of today. Build it: pip install $(python -m drivetrain.infra.horovod.build {framework}); or take "
        "an image that has Horovod."
    )


def _host(rank: int, processes: int) -> str:
    """A name for Horovod alone, which groups the processes of one host by it."""
    return f"host-{rank // processes}"
