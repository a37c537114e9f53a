"""This process's place among those that work together, and the few collectives that the scripts need."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

# A peer that hangs is invisible until a collective times out; gloo's own 30 minutes is a long time to pay for a
# cluster that does nothing. Longer than any step, shorter than patience.
COLLECTIVE_TIMEOUT = 600.0

# Which library moves the tensors of which device. What lies on the CPU travels also where GPUs compute.
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


@dataclass(frozen=True)
class Process:
    """`rank` of `world_size` processes, `local_rank` of `local_world_size` on this host, computing on `device`."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Rank 0: the one that prints and writes."""
        return self.rank == 0

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The element-wise sum of `values` over all ranks, the same on every rank."""
        if self.world_size == 1:
            return values
        total = values.to(self.device, copy=True)
        dist.all_reduce(total)
        return total.to(values.device)

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self.sum(torch.zeros(1))

    def broadcast_bytes(self, data: bytes | None, *, source: int = 0, group: dist.ProcessGroup | None = None) -> bytes:
        """The bytes of rank `source` on every rank (of `group`); the others give None.

        (The objects of torch's own broadcast are pickles.)
        """
        if self.world_size == 1:
            assert data is not None
            return data
        length = torch.tensor([len(data) if data is not None else 0], dtype=torch.int64, device=self.device)
        dist.broadcast(length, src=source, group=group)
        buffer = torch.empty(int(length.item()), dtype=torch.uint8, device=self.device)
        if data:
            buffer.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        if buffer.numel():
            dist.broadcast(buffer, src=source, group=group)
        return data if data is not None else buffer.cpu().numpy().tobytes()


@contextmanager
def join_group(collective_timeout: float = COLLECTIVE_TIMEOUT) -> Generator[Process]:
    """Join the processes that the launcher started; one process alone needs no group.

    A collective fails after `collective_timeout` seconds, in which some other process has not come to it.

    Reads the variables that torchrun sets: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
    """
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.deterministic = True  # the same training gives the same bytes
    process = Process(rank, world_size, local_rank, local_world_size, device)
    if world_size == 1:
        yield process
        return
    use_one_gloo_worker()
    dist.init_process_group(BACKENDS[device.type], timeout=timedelta(seconds=collective_timeout))
    yield process
    # Only after success: leaving in order needs the others, and after a failure they may be gone.
    dist.destroy_process_group()


@cache
def use_one_gloo_worker() -> None:
    """Let every gloo group made from now on, torch's own ones too, complete its collectives in one thread.

    torch gives a group two threads, and both write the name of what they have completed into one std::string, without
    a lock (`lastCompletedWorkName` in ProcessGroupGloo::runLoop, seen in torch 2.13:
    https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp). A name of more than
    15 characters lies on the heap (ALLGATHER_COALESCED: how a DTensor is put together): where both write at once it is
    freed twice, or written to after it is freed, and a training on a loaded machine is aborted now and then.

    All groups of a process share its devices, too. torch makes one a group, with a thread that looks for news every
    10 ms (gloo/transport/tcp/loop.cc), and a training in slices has a dozen groups.

    Neither init_process_group nor new_group hands options on to gloo, hence the change to its constructor.
    """
    gloo: Any = dist.ProcessGroupGloo
    make_with_options = gloo.__init__

    def make(
        group: Any, store: Any, rank: int, size: int, timeout: timedelta = dist.default_pg_timeout, **more: Any
    ) -> None:
        options = gloo._Options()
        for name, value in more.items():  # torch 2.14 gives enable_reconfigure, which is an option, too
            setattr(options, name, value)
        options._devices = _gloo_devices(os.getpid(), os.environ.get("GLOO_SOCKET_IFNAME", ""))
        options._timeout, options._threads = timeout, 1
        make_with_options(group, store, rank, size, options)

    gloo.__init__ = make


@cache
def _gloo_devices(pid: int, interfaces: str) -> list[Any]:
    """Those of this process (a fork has no thread of its parent's), one for each of `interfaces`."""
    gloo: Any = dist.ProcessGroupGloo
    names = filter(None, interfaces.split(","))
    return [gloo.create_device(interface=name) for name in names] or [gloo.create_default_device()]
