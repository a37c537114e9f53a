"""A rank's file: the pieces of tensors that it is to write, in one safetensors file in the host's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer, lay_out
from drivetrain.training.checkpointing.tensors.index import Chunk, Sizes, TensorEntry
from drivetrain.training.checkpointing.tensors.pieces import Piece


def file_name(rank: int, world_size: int) -> str:
    return f"rank-{rank:05d}-of-{world_size:05d}.safetensors"


class Place(NamedTuple):
    """The place of the rank's piece `name` in the memory of a file: from byte `start` on, `sizes` numbers of
    `dtype`, row by row."""

    name: str
    start: int
    sizes: Sizes
    dtype: str


class RankFile:
    """The layout of pieces in the file `name`.

    Attributes:
        part: what the index says of this file.
        places: of each piece, in their order.
        size: of the file, in bytes.
    """

    def __init__(self, name: str, pieces: Sequence[Piece]) -> None:
        self.name = name
        self.pieces = pieces
        self.layout = lay_out([(piece.key, piece.dtype, piece.sizes) for piece in pieces])
        self.size = self.layout.size
        starts = self.layout.starts
        self.places = [Place(piece.held_as, starts[piece.key], piece.sizes, piece.dtype) for piece in pieces]
        self.part: dict[str, TensorEntry] = {}
        for piece, place in zip(pieces, self.places, strict=True):
            chunk = Chunk(piece.offsets, piece.sizes, name, place.start, piece.num_bytes)
            before = self.part.get(piece.name)
            chunks = (*(before.chunks if before else ()), chunk)
            self.part[piece.name] = TensorEntry(piece.dtype, piece.shape, chunks)

    def write_header(self, buffer: HostBuffer) -> None:
        buffer.view(len(self.layout.header))[:] = self.layout.header
