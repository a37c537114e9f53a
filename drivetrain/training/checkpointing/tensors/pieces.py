"""The pieces of tensors that a rank holds, and the parts of files that it needs for them: boxes of numbers, which no
framework owns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.tensors.index import DTYPES, Chunk, Index, Sizes


@dataclass(frozen=True)
class Piece:
    """A box of the tensor `name`: `sizes` numbers from `offsets` on; all of it where `sizes` is its `shape`.

    `part` names it where a rank holds several boxes of the tensor.
    """

    name: str
    dtype: str
    shape: Sizes
    offsets: Sizes
    sizes: Sizes
    part: str = ""

    @classmethod
    def whole(cls, name: str, dtype: str, shape: Sizes) -> Piece:
        return cls(name, dtype, shape, (0,) * len(shape), shape)

    @property
    def held_as(self) -> str:
        """The name under which the rank has it."""
        return self.part or self.name

    @property
    def is_slice(self) -> bool:
        return self.sizes != self.shape

    @property
    def is_nothing(self) -> bool:
        """True for the slice of a rank that got none of the tensor."""
        return not math.prod(self.sizes) and bool(math.prod(self.shape))

    @property
    def num_bytes(self) -> int:
        return math.prod(self.sizes) * DTYPES[self.dtype][1]

    @property
    def key(self) -> str:
        """The tensor's name; for a slice also which one it is."""
        if not self.is_slice:
            return self.name
        ranges = (f"{offset}:{offset + size}" for offset, size in zip(self.offsets, self.sizes, strict=True))
        return f"{self.name}[{', '.join(ranges)}]"


def check_dtype(dtype: str, tensor: str) -> str:
    """
    Raises:
        InputError: safetensors has no such numbers.
    """
    if dtype not in DTYPES:
        raise InputError(f"tensor {tensor!r} is of {dtype}; checkpoints take {', '.join(DTYPES)}.")
    return dtype


@dataclass(frozen=True)
class Read:
    """A box of `lengths` numbers that a rank takes out of a file: from `source` in the chunk, to `target` in the piece
    that it holds as `name`."""

    name: str
    chunk: Chunk
    dtype: str
    source: Sizes
    target: Sizes
    lengths: Sizes


def reads_of(
    wanted: Mapping[str, Piece], index: Index, files: Collection[str], prefer: Callable[[list[Chunk]], Chunk]
) -> list[Read]:
    """Choose the reads that fill the pieces that a rank wants.

    Args:
        wanted: by the names under which the rank has them.
        files: names of files that can be read here.
        prefer: which one of several copies of a chunk is read.
    """
    found: list[Read] = []
    for name, piece in wanted.items():
        entry = index.tensors[piece.name]
        copies: dict[Sizes, list[Chunk]] = {}
        for chunk in entry.chunks:
            if chunk.file in files:
                copies.setdefault(chunk.offsets, []).append(chunk)
        for held in copies.values():
            chunk = prefer(held)
            starts = tuple(map(max, chunk.offsets, piece.offsets))
            ends = (
                min(a + n, b + m)
                for a, n, b, m in zip(chunk.offsets, chunk.sizes, piece.offsets, piece.sizes, strict=True)
            )
            lengths = tuple(max(0, end - start) for start, end in zip(starts, ends, strict=True))
            if math.prod(lengths):
                source = tuple(s - o for s, o in zip(starts, chunk.offsets, strict=True))
                target = tuple(s - o for s, o in zip(starts, piece.offsets, strict=True))
                found.append(Read(name, chunk, entry.dtype, source, target, lengths))
    return found


def uncovered(reads: list[Read], wanted: Mapping[str, Piece]) -> str | None:
    """A tensor whose pieces held here are not all read."""
    covered = dict.fromkeys(wanted, 0)
    for read in reads:
        covered[read.name] += math.prod(read.lengths)
    return next((piece.name for name, piece in wanted.items() if covered[name] != math.prod(piece.sizes)), None)
