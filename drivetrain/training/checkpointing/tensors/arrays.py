"""numpy's arrays in the memory of a checkpoint's files, for frameworks that keep their state as such on the host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.checkpointing.tensors.index import Sizes
from drivetrain.training.checkpointing.tensors.pieces import Piece, Read, check_dtype
from drivetrain.training.checkpointing.tensors.rank_file import Place

Array = NDArray[Any]


def piece_of(name: str, array: Array) -> Piece:
    """
    Raises:
        InputError: checkpoints have no such numbers.
    """
    return Piece.whole(name, check_dtype(array.dtype.name, name), array.shape)


def views(buffer: HostBuffer, places: Sequence[Place]) -> list[Array]:
    return [_array_at(buffer, place.start, place.sizes, place.dtype) for place in places]


def copy_all(targets: Sequence[Array], sources: Sequence[Array]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target[...] = source


def fill(reads: Sequence[Read], arrays: dict[str, Array], buffers: Mapping[str, HostBuffer]) -> None:
    """Bring what is read into `arrays`."""
    for read in reads:
        chunk = read.chunk
        there = _array_at(buffers[chunk.file], chunk.start, chunk.sizes, read.dtype)
        arrays[read.name][_box(read.target, read.lengths)] = there[_box(read.source, read.lengths)]


def _array_at(buffer: HostBuffer, start: int, sizes: Sizes, dtype: str) -> Array:
    count = math.prod(sizes)
    return np.frombuffer(buffer.memory, dtype, count, start).reshape(sizes) if count else np.empty(sizes, dtype)


def _box(offsets: Sizes, lengths: Sizes) -> Any:
    return tuple(slice(offset, offset + length) for offset, length in zip(offsets, lengths, strict=True))
