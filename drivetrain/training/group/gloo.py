"""A group over gloo, torch.distributed's library for the CPU.

Every message goes to rank 0 or comes from it, and a sender waits for an answer, not for the message to be taken. gloo
reports a lost sender at once to a rank that waits for its message. A rank that waits for its own message to be taken
may wait until the time-out: what could not be written any more (EPIPE) is kept, and forgotten when the pair is given up
(`write`, `signalException` in https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc). gloo's own
broadcast, gather and scatter wait in that way. Its reductions do not, so we use them. A reduction that times out does
not say which rank is missing (launch/processes/missing_peers.py finds out).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.training.group import Array, Group, LostRanksError

# Up to here arrays are copied into torch's own memory: gloo's thread lets go of a tensor a moment after the collective,
# and for memory of numpy's it would then need the interpreter, which may be waiting for that thread at the end.
_COPIED_BYTES = 1 << 20
_ACKNOWLEDGEMENT = torch.ones(1, dtype=torch.uint8)


class GlooGroup(Group):
    """The ranks of torch's default group, once that is initialized; its CPU backend is gloo.

    Args:
        timeout: that of the group, in seconds.
        process_group: another group of all ranks; None for the default one.
    """

    def __init__(self, rank: int, size: int, timeout: float, process_group: dist.ProcessGroup | None = None) -> None:
        self.rank, self.size, self.timeout, self.process_group = rank, size, timeout, process_group
        # What is let go of is not sent. (Memory is in no danger: a message holds its tensor, and gloo holds the message
        # by a weak pointer, which it takes for as long as it writes.)
        self._sent: list[dist.Work] = []

    def twin(self, timeout: float | None = None) -> Group:
        timeout = self.timeout if timeout is None else timeout
        made = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
        # A rank outside of a group would get a number; here every rank is in the group.
        return GlooGroup(self.rank, self.size, timeout, cast(dist.ProcessGroup, made))

    def to_main(self, data: bytes) -> list[bytes] | None:
        if self.rank == 0:
            return [data, *self._receive(range(1, self.size))]
        self._send(data, 0)
        return None

    def deal(self, parts: Sequence[bytes] | None) -> bytes:
        if parts is None:
            received = self._receive([0])[0]
            self._keep(_ACKNOWLEDGEMENT, 0)
            return received
        # Asked for before anything is sent: a rank that ends as soon as it has its part has said so by then.
        acknowledged = {rank: self._ask(torch.empty(1, dtype=torch.uint8), rank) for rank in range(1, self.size)}
        for rank in range(1, self.size):
            self._send(parts[rank], rank)
        _wait(acknowledged)
        self._sent.clear()
        return parts[0]

    def send(self, data: bytes) -> None:
        for work in self._send(data, 0):
            work.wait()
        self._sent.clear()

    def receive(self, rank: int) -> bytes:
        return self._receive([rank])[0]

    def sum(self, values: Array) -> None:
        if values.nbytes > _COPIED_BYTES:
            dist.all_reduce(torch.from_numpy(values), group=self.process_group)
            return
        summed = torch.from_numpy(values).clone()
        dist.all_reduce(summed, group=self.process_group)
        values[...] = summed.numpy()

    def start_max(self, values: Array) -> Callable[[], None]:
        return self._start(values, dist.ReduceOp.MAX)

    def start_sum(self, values: Array) -> Callable[[], None]:
        return self._start(values, dist.ReduceOp.SUM)

    def _start(self, values: Array, operation: Any) -> Callable[[], None]:
        reduced = torch.from_numpy(values).clone()
        work = _made(dist.all_reduce(reduced, op=operation, group=self.process_group, async_op=True))

        def finish() -> None:
            work.wait()
            values[...] = reduced.numpy()

        return finish

    def all_gather(self, own: Array) -> Array:
        own = np.ascontiguousarray(own)
        found = [torch.from_numpy(np.empty_like(own)) for _ in range(self.size)]
        dist.all_gather(found, torch.from_numpy(own), group=self.process_group)
        return np.stack([tensor.numpy() for tensor in found])

    def all_to_all(self, rows: Array, to: Sequence[int], of: Sequence[int]) -> Array:
        came = np.empty((sum(of), *rows.shape[1:]), rows.dtype)
        sent = torch.from_numpy(np.ascontiguousarray(rows))
        dist.all_to_all_single(torch.from_numpy(came), sent, list(of), list(to), group=self.process_group)
        return came

    def close(self) -> None:
        if self.process_group is None:  # and with it all others
            dist.destroy_process_group()
        else:
            dist.destroy_process_group(self.process_group)

    def _send(self, data: bytes, rank: int) -> list[dist.Work]:
        sent = [self._keep(torch.tensor([len(data)], dtype=torch.int64), rank)]
        if data:
            sent.append(self._keep(torch.frombuffer(bytearray(data), dtype=torch.uint8), rank))
        return sent

    def _receive(self, ranks: Iterable[int]) -> list[bytes]:
        sizes = {rank: torch.empty(1, dtype=torch.int64) for rank in ranks}
        self._fill(sizes)
        parts = {rank: torch.empty(int(size.item()), dtype=torch.uint8) for rank, size in sizes.items()}
        self._fill({rank: part for rank, part in parts.items() if len(part)})
        self._sent.clear()  # who sends this has everything that it waited for before
        return [part.numpy().tobytes() for part in parts.values()]

    def _fill(self, parts: dict[int, Tensor]) -> None:
        _wait({rank: self._ask(part, rank) for rank, part in parts.items()})

    def _ask(self, part: Tensor, rank: int) -> dist.Work:
        return _made(dist.irecv(part, group=self.process_group, src=rank))

    def _keep(self, part: Tensor, rank: int) -> dist.Work:
        work = _made(dist.isend(part, group=self.process_group, dst=rank))
        self._sent.append(work)
        return work


def _wait(works: dict[int, dist.Work]) -> None:
    """
    Raises:
        LostRanksError: naming the rank whose message does not come, and others whose messages have not come yet.
    """
    for rank, work in works.items():
        try:
            work.wait()
        except RuntimeError as error:
            timed_out = "timed out" in str(error).lower()
            later = [other for other, its in works.items() if other > rank and not its.is_completed()]
            lost = [rank, *(later if timed_out else [])]
            raise LostRanksError(lost, str(error), timed_out=timed_out) from error


def _made(work: dist.Work | None) -> dist.Work:
    """(None is for a rank outside of the group.)"""
    assert work is not None
    return work


def group_timeout() -> timedelta:
    """The seconds after which a collective of the group of all ranks fails."""
    everyone = dist.group.WORLD
    assert everyone is not None
    return everyone._get_backend(everyone._device_types[-1]).options._timeout


def give_way() -> None:
    """Run this thread, and those that it starts from now on, in batch mode, where waking up interrupts nobody (Linux).

    gloo's thread polls without pause while the training's thread holds the lock that it wants, or has not asked yet for
    what a faster rank has sent. On a core of its own that costs nothing. Where ranks fill all cores, each message wakes
    a poller that interrupts the very thread it waits for.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    with suppress(OSError):  # sandboxes such as gVisor know one mode only, and training is right in it, too
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


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
