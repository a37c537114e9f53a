"""Bytes between the ranks, over a process group of their own.

What the training says on its group and what a checkpoint says on another cannot take each other's place: on one group
an asynchronous save deadlocks. Everything is bytes (mostly JSON): torch's own ways of sending objects are pickles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.training_scripts.distribution.layout import group_timeout
from drivetrain.training_scripts.process import Process


class Exchange:
    """Collectives of bytes. Every rank must make one, and call the same ones in the same order; not from two threads
    at a time. A rank that is lost makes them fail: at once, or after the time-out of the group of all ranks."""

    def __init__(self, process: Process) -> None:
        self.rank, self.world_size = process.rank, process.world_size
        self._group: dist.ProcessGroup | None = None
        if self.world_size > 1:
            made = dist.new_group(backend="gloo", timeout=group_timeout())
            self._group = cast(dist.ProcessGroup, made)  # (ranks outside of a group get a number; here is none)

    def gather(self, data: bytes) -> list[bytes]:
        """What each rank gave, on every rank."""
        if self._group is None:
            return [data]
        sizes = self._sizes(len(data))
        parts = [torch.empty(max(sizes), dtype=torch.uint8) for _ in sizes]
        if max(sizes):
            dist.all_gather(parts, _tensor(data, max(sizes)), group=self._group)
        return [_bytes(part, size) for part, size in zip(parts, sizes, strict=True)]

    def gather_json(self, value: Any) -> list[Any]:
        return [json.loads(data) for data in self.gather(json.dumps(value).encode())]

    def to_main(self, data: bytes) -> list[bytes] | None:
        """What each rank gave, on rank 0; None on the others."""
        if self._group is None:
            return [data]
        sizes = self._sizes(len(data))
        parts = [torch.empty(max(sizes), dtype=torch.uint8) for _ in sizes] if self.rank == 0 else None
        if max(sizes):
            dist.gather(_tensor(data, max(sizes)), parts, dst=0, group=self._group)
        return [_bytes(part, size) for part, size in zip(parts, sizes, strict=True)] if parts is not None else None

    def from_main(self, data: bytes | None) -> bytes:
        """What rank 0 gave, on every rank; the others give None."""
        if self._group is None:
            assert data is not None
            return data
        size = torch.tensor([len(data) if data is not None else 0], dtype=torch.int64)
        dist.broadcast(size, src=0, group=self._group)
        length = int(size.item())
        part = _tensor(data, length) if data is not None else torch.empty(length, dtype=torch.uint8)
        if length:
            dist.broadcast(part, src=0, group=self._group)
        return data if data is not None else _bytes(part, length)

    def deal(self, parts: Sequence[bytes] | None) -> bytes:
        """The part that rank 0 has for this rank; the others give None."""
        if self._group is None:
            assert parts is not None
            return parts[0]
        sizes = json.loads(self.from_main(None if parts is None else json.dumps([len(p) for p in parts]).encode()))
        length = max(sizes)
        own = torch.empty(length, dtype=torch.uint8)
        if length:
            given = None if parts is None else [_tensor(part, length) for part in parts]
            dist.scatter(own, given, src=0, group=self._group)
        return _bytes(own, sizes[self.rank])

    def _sizes(self, own: int) -> list[int]:
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([own], dtype=torch.int64), group=self._group)
        return [int(size.item()) for size in sizes]


def _tensor(data: bytes, length: int) -> Tensor:
    """The data, filled up with zeros."""
    return torch.frombuffer(bytearray(data.ljust(length, b"\0")), dtype=torch.uint8)


def _bytes(part: Tensor, size: int) -> bytes:
    return part[:size].numpy().tobytes()
