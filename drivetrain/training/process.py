"""This process's place among those that work together, and the few collectives that the scripts need."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drivetrain.training import plugins
from drivetrain.training.group import ALONE, Group

# A peer that hangs is invisible until a collective times out; gloo's own 30 minutes is a long time to pay for a
# cluster that does nothing. Longer than any step, shorter than patience.
COLLECTIVE_TIMEOUT = 600.0


@dataclass(frozen=True)
class Process:
    """`rank` of `world_size` processes, `local_rank` of `local_world_size` on this host, computing on `device`, which
    is the framework's. `joined` is how they talk; one process alone needs nothing. `leaving` is what else they do in
    order at the end, such as to shut down a library by which they have met."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    device: Any
    joined: Group | None = None
    leaving: ExitStack = field(default_factory=ExitStack, compare=False, repr=False)

    @property
    def is_main(self) -> bool:
        """Rank 0, which prints and writes."""
        return self.rank == 0

    @property
    def group(self) -> Group:
        """All processes together."""
        if self.joined is None:
            assert self.world_size == 1, "the processes have not joined a group"
            return ALONE
        return self.joined

    def sum(self, values: ArrayLike) -> NDArray[Any]:
        """The element-wise sum of `values` over all ranks, the same on every rank; an array of its own."""
        total = np.array(values)
        self.group.sum(total)
        return total

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self.group.barrier()

    def broadcast_bytes(self, data: bytes | None, *, source: int = 0) -> bytes:
        """The bytes of rank `source` on every rank; the others give None."""
        return self.group.broadcast(data, source=source)


@contextmanager
def join_group(
    collective_timeout: float = COLLECTIVE_TIMEOUT, framework: str = "torch", backend: str = ""
) -> Generator[Process]:
    """Join the processes that the launcher started, as `framework` does it; one process alone needs no group. Without
    a framework ("") the processes have no device, and join over TCP; those of torchrun, which has taken the port, as
    torch's do.

    A collective fails after `collective_timeout` seconds, in which some other process has not come to it. `backend` is
    what moves a strategy's tensors, where its file names one (`BACKEND`).

    Reads the variables that the launchers set: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, and where rank 0 is:
    MASTER_ADDR, MASTER_PORT.
    """
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if not framework and (world_size == 1 or "TORCHELASTIC_RUN_ID" not in os.environ):
        process = Process(rank, world_size, local_rank, local_world_size, None)
        if world_size == 1:
            yield process
            return
        from drivetrain.training.group import tcp

        port = int(os.environ["MASTER_PORT"])
        group: Group = tcp.join(rank, world_size, os.environ["MASTER_ADDR"], port, collective_timeout)
        yield replace(process, joined=group)
        group.close()
        return
    joining = plugins.load_framework(framework or "torch")
    process = Process(rank, world_size, local_rank, local_world_size, joining.device(local_rank))
    if world_size == 1:
        yield process
        return
    own = {"backend": backend} if backend else {}
    group = joining.join(process, collective_timeout, **own)
    yield replace(process, joined=group)
    # Only after success: leaving in order needs the others, and after a failure they may be gone.
    process.leaving.close()
    group.close()
