"""A slice that knows no rows: a rank's numbers of a tensor, counted row by row, as ZeRO deals parameters out.

    tensor of shape [3, 4]        a rank that holds the numbers 2 to 9

        0  1 [2  3]               boxes [0, 2:4], [1, 0:4], [2, 0:2]
       [4  5  6  7]
       [8  9] 10 11

A checkpoint keeps boxes (drivetrain.training.checkpointing.tensors.pieces); a range of numbers is made of at most 2n -
1 boxes in n dimensions, each contiguous in the rank's memory. So any other strategy can load what ZeRO saves, and the
other way round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor

Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FlatSlice:
    """Numbers of a tensor of `shape` from number `start` on, this rank's: `flat`, shape [count].

    Each process of `group` (None: of all) holds another range of it, perhaps an empty one; together they hold it once.
    """

    flat: Tensor
    shape: torch.Size
    start: int
    group: dist.ProcessGroup | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.flat.dtype

    @property
    def device(self) -> torch.device:
        return self.flat.device

    def detach(self) -> FlatSlice:
        return self

    def clone(self) -> FlatSlice:
        return self.like(self.flat.detach().clone())

    def empty_like(self, dtype: torch.dtype | None = None) -> FlatSlice:
        return self.like(torch.empty_like(self.flat, dtype=dtype))

    def like(self, flat: Tensor) -> FlatSlice:
        """The same range of another tensor of this shape."""
        return replace(self, flat=flat)

    @torch.no_grad()
    def whole(self) -> Tensor:
        """All of it. Every rank must call it."""
        found = self.flat.new_zeros(math.prod(self.shape))
        found[self.start : self.start + self.flat.numel()] = self.flat
        # One rank's number and zeros: exact in any format and order.
        dist.all_reduce(found, group=self.group)
        return found.view(self.shape)

    def boxes(self, name: str) -> list[Box]:
        """The boxes of the tensor `name`."""
        found: list[Box] = []
        done = 0
        for offsets, sizes in boxes_of(tuple(self.shape), self.start, self.start + self.flat.numel()):
            count = math.prod(sizes)
            local = self.flat.detach()[done : done + count].view(sizes)
            found.append(Box(name, local, tuple(self.shape), offsets))
            done += count
        return found


@dataclass(frozen=True, eq=False)
class Box:
    """A box of the tensor `name` of shape `whole`, from `offsets` on: `local`, a part of a FlatSlice's memory."""

    name: str
    local: Tensor
    whole: Sizes
    offsets: Sizes

    @property
    def dtype(self) -> torch.dtype:
        return self.local.dtype

    @property
    def shape(self) -> torch.Size:
        return self.local.shape


def boxes_of(shape: Sizes, start: int, end: int) -> Iterator[tuple[Sizes, Sizes]]:
    """The numbers `start` to `end` of a tensor, counted row by row, as boxes (offsets, sizes), in their order."""
    if start >= end:
        return
    if len(shape) < 2:  # (a scalar has one number, and no dimension)
        yield ((start,), (end - start,)) if shape else ((), ())
        return
    row = math.prod(shape[1:])
    first, last = start // row, end // row
    if first == last:
        yield from _within(shape, first, start % row, end % row)
        return
    if start % row:
        yield from _within(shape, first, start % row, row)
        first += 1
    if first < last:
        yield (first, *(0 for _ in shape[1:])), (last - first, *shape[1:])
    if end % row:
        yield from _within(shape, last, 0, end % row)


def _within(shape: Sizes, row: int, start: int, end: int) -> Iterator[tuple[Sizes, Sizes]]:
    for offsets, sizes in boxes_of(shape[1:], start, end):
        yield (row, *offsets), (1, *sizes)


def in_boxes(tensors: Mapping[str, Tensor | FlatSlice]) -> dict[str, Tensor | Box]:
    """Every FlatSlice replaced by its boxes, under names of their own."""
    found: dict[str, Tensor | Box] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, FlatSlice):
            found |= {f"{name}{list(box.offsets)}": box for box in tensor.boxes(name)}
        else:
            found[name] = tensor
    return found
