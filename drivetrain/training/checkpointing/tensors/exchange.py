"""Bytes between the ranks, over a process group of their own.

What the training says on its group and what a checkpoint says on another cannot take each other's place: on one group
an asynchronous save deadlocks. Everything is bytes (mostly JSON): torch's own ways of sending objects are pickles.

Every message goes to rank 0 or comes from it, and whoever sends one waits for an answer, not for the message to be
taken. gloo tells whoever waits for a message at once that its sender is gone. Whoever waits for one to be taken may be
left in the belief that it will be, until the time-out: what could not be written any more (EPIPE) is kept, and
forgotten when the pair is given up (`write`, `signalException` in
https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc). gloo's own broadcast, gather and scatter wait in
that way.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.training.process import Process
from drivetrain.training.torch.parallel.layout import group_timeout

T = TypeVar("T")

_PACE_S = 1.0
_ACKNOWLEDGEMENT = torch.ones(1, dtype=torch.uint8)


class Exchange:
    """Collectives of bytes. Every rank must make one, and call the same ones in the same order; not from two threads
    at a time. A rank that is lost makes them fail: at once, or after the time-out of the group of all ranks."""

    def __init__(self, process: Process) -> None:
        self.rank, self.world_size = process.rank, process.world_size
        # What is let go of is not sent. (Memory is in no danger: a message holds its tensor, and gloo holds the message
        # by a weak pointer, which it takes for as long as it writes.)
        self._sent: list[dist.Work] = []
        self._group: dist.ProcessGroup | None = None
        if self.world_size > 1:
            made = dist.new_group(backend="gloo", timeout=group_timeout())
            self._group = cast(dist.ProcessGroup, made)  # (ranks outside of a group get a number; here is none)

    def gather(self, data: bytes) -> list[bytes]:
        """What each rank gave, on every rank."""
        given = self.to_main(data)
        if given is not None:
            self.from_main(json.dumps([len(part) for part in given]).encode() + b"\n" + b"".join(given))
            return given
        sizes, _, joined = self.from_main(None).partition(b"\n")
        ends = list(itertools.accumulate(json.loads(sizes), initial=0))
        return [joined[start:end] for start, end in itertools.pairwise(ends)]

    def gather_json(self, value: Any) -> list[Any]:
        return [json.loads(data) for data in self.gather(json.dumps(value).encode())]

    def to_main(self, data: bytes) -> list[bytes] | None:
        """What each rank gave, on rank 0; None on the others, which go on with what rank 0 answers to: `from_main`,
        `deal`, `meanwhile`."""
        if self.rank == 0:
            return [data, *self._receive(range(1, self.world_size))]
        self._send(data, 0)
        return None

    def from_main(self, data: bytes | None) -> bytes:
        """What rank 0 gave, on every rank; the others give None."""
        return self.deal(None if data is None else [data] * self.world_size)

    def deal(self, parts: Sequence[bytes] | None) -> bytes:
        """The part that rank 0 has for this rank; the others give None."""
        if parts is None:
            received = self._receive([0])[0]
            self._keep(_ACKNOWLEDGEMENT, 0)
            return received
        # Asked for before anything is sent: a rank that ends as soon as it has its part has said so by then.
        acknowledged = [self._ask(torch.empty(1, dtype=torch.uint8), rank) for rank in range(1, self.world_size)]
        for rank in range(1, self.world_size):
            self._send(parts[rank], rank)
        for work in acknowledged:
            work.wait()
        self._sent.clear()
        return parts[0]

    def meanwhile(self, work: Callable[[], T]) -> T:
        """Do something that may take longer on one rank than on another, such as to wait for its disk. Every rank must
        call it. As long as one is at it all hear of each other: a slow disk is told from a rank that stands still.

        Raises:
            Exception: what `work` raises here, once all have done with theirs.
        """
        if self.world_size == 1:
            return work()
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="meanwhile", daemon=True).start()
        pace = min(_PACE_S, group_timeout().total_seconds() / 4)
        while not all(self.gather_json(bool(wait([done], timeout=pace).done))):
            continue
        return done.result()

    def _send(self, data: bytes, rank: int) -> None:
        self._keep(torch.tensor([len(data)], dtype=torch.int64), rank)
        if data:
            self._keep(torch.frombuffer(bytearray(data), dtype=torch.uint8), rank)

    def _receive(self, ranks: Iterable[int]) -> list[bytes]:
        sizes = {rank: torch.empty(1, dtype=torch.int64) for rank in ranks}
        self._fill(sizes)
        parts = {rank: torch.empty(int(size.item()), dtype=torch.uint8) for rank, size in sizes.items()}
        self._fill({rank: part for rank, part in parts.items() if len(part)})
        self._sent.clear()  # who sends this has everything that it waited for before
        return [part.numpy().tobytes() for part in parts.values()]

    def _fill(self, parts: dict[int, Tensor]) -> None:
        for work in [self._ask(part, rank) for rank, part in parts.items()]:
            work.wait()

    def _ask(self, part: Tensor, rank: int) -> dist.Work:
        return _made(dist.irecv(part, group=self._group, group_src=rank))

    def _keep(self, part: Tensor, rank: int) -> None:
        self._sent.append(_made(dist.isend(part, group=self._group, group_dst=rank)))


def _made(work: dist.Work | None) -> dist.Work:
    """(None is for a rank outside of the group.)"""
    assert work is not None
    return work
