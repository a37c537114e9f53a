"""A rank's file: the pieces of tensors that it is to write, in one safetensors file in the host's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drivetrain.training.checkpointing.tensors.host_buffer import PAGE, HostBuffer
from drivetrain.training.checkpointing.tensors.index import DTYPES, Chunk, Sizes, TensorEntry, safetensors_header
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
    """The layout of pieces in the file `name`: data starts at a page, each piece at a multiple of its numbers' size.

    Attributes:
        part: what the index says of this file.
        places: of each piece, in their order.
        size: of the file, in bytes.
    """

    def __init__(self, name: str, pieces: Sequence[Piece]) -> None:
        self.name = name
        self.pieces = pieces
        # Wide numbers first: what follows stays aligned without gaps, which the format does not allow.
        ordered = sorted(pieces, key=lambda piece: (-DTYPES[piece.dtype][1], piece.key))
        described = [(piece.key, piece.dtype, piece.sizes) for piece in ordered]
        self._header, starts = safetensors_header(described, metadata={"format": "pt"}, align=PAGE)
        first = len(self._header)
        self.size = first + sum(piece.num_bytes for piece in pieces)
        self.places = [Place(piece.held_as, first + starts[piece.key], piece.sizes, piece.dtype) for piece in pieces]
        self.part: dict[str, TensorEntry] = {}
        for piece, place in zip(pieces, self.places, strict=True):
            chunk = Chunk(piece.offsets, piece.sizes, name, place.start, piece.num_bytes)
            before = self.part.get(piece.name)
            chunks = (*(before.chunks if before else ()), chunk)
            self.part[piece.name] = TensorEntry(piece.dtype, piece.shape, chunks)

    def write_header(self, buffer: HostBuffer) -> None:
        buffer.view(len(self._header))[:] = self._header
