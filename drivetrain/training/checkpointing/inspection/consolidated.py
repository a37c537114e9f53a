"""Joins the parts of tensors into one safetensors file, without torch and with little memory.

Bytes are moved and never computed with, so what comes out is what a training on one process would have written: of the
same tensors the very file that `safetensors.torch.save` makes. The format: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping

from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import DTYPES, Chunk, Sizes, TensorEntry, safetensors_header

# How the safetensors library sorts number formats: the widest first, and this way among those of a width.
ORDER = (
    *("uint64", "int64", "float64", "float32", "uint32", "int32", "bfloat16", "float16", "uint16", "int16"),
    *("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "bool"),
)
PIECE = 8 << 20

# (file, start, length) -> that part of it; may be asked for any part, in any order.
Read = Callable[[str, int, int], bytes]


def in_order(tensors: Mapping[str, TensorEntry]) -> list[str]:
    """Names in the order in which the library writes them."""
    return sorted(tensors, key=lambda name: (ORDER.index(tensors[name].dtype), name))


def header(tensors: Mapping[str, TensorEntry]) -> bytes:
    """Length and JSON, as the library writes them."""
    return safetensors_header((name, tensors[name].dtype, tensors[name].shape) for name in in_order(tensors))[0]


def pieces(tensors: Mapping[str, TensorEntry], read: Read) -> Generator[bytes | bytearray]:
    """The file, piece by piece. Memory holds at most one piece, or one sliced tensor and one of its parts.

    Raises:
        DamagedError: a part of a tensor is nowhere.
    """
    yield header(tensors)
    for name in in_order(tensors):
        entry = tensors[name]
        chunks = each_once(name, entry)
        if len(chunks) > 1 and not _follow_each_other(chunks, entry.shape):
            yield assembled(entry, chunks, read)
            continue
        for chunk in chunks:
            for start in range(0, chunk.length, PIECE):
                yield read(chunk.file, chunk.start + start, min(PIECE, chunk.length - start))


def each_once(name: str, entry: TensorEntry) -> list[Chunk]:
    """The parts of a tensor by their place in it; of copies (of hosts that do not share a folder) the first.

    Raises:
        DamagedError: something of it is nowhere, or there twice.
    """
    found: dict[Sizes, Chunk] = {}
    for chunk in entry.chunks:
        if found.setdefault(chunk.offsets, chunk).sizes != chunk.sizes:
            raise DamagedError(f"two parts of {name} overlap")
    held, needed = sum(math.prod(chunk.sizes) for chunk in found.values()), math.prod(entry.shape)
    if held != needed:
        raise DamagedError(f"of {name} {held} numbers are in the checkpoint's files, and not {needed}")
    # Without numbers in it a part has nothing to give.
    return [found[offsets] for offsets in sorted(found) if found[offsets].length]


def assembled(entry: TensorEntry, chunks: list[Chunk], read: Read) -> bytearray:
    """A tensor from boxes of it, row by row: numbers of a box that lie side by side in the tensor, too, are one run."""
    itemsize = DTYPES[entry.dtype][1]
    whole = bytearray(math.prod(entry.shape) * itemsize)
    strides = _strides(entry.shape)
    for chunk in chunks:
        data = memoryview(read(chunk.file, chunk.start, chunk.length))
        # The last dimensions that the box holds in full, and the one before them.
        inner = len(entry.shape) - 1
        while inner > 0 and chunk.sizes[inner] == entry.shape[inner]:
            inner -= 1
        run = math.prod(chunk.sizes[inner:]) * itemsize
        for number, start in enumerate(_run_starts(chunk, strides, inner)):
            whole[start * itemsize : start * itemsize + run] = data[number * run : (number + 1) * run]
    return whole


def _run_starts(chunk: Chunk, strides: Sizes, inner: int) -> Generator[int]:
    """The start of each run of a box in its tensor, counted in numbers, in the order in which they lie in the box."""
    first = sum(offset * stride for offset, stride in zip(chunk.offsets, strides, strict=True))
    sizes, steps = chunk.sizes[:inner], strides[:inner]
    place, start = [0] * inner, first
    for _ in range(math.prod(sizes)):
        yield start
        for dimension in reversed(range(inner)):  # as a counter of mixed digits
            place[dimension] += 1
            start += steps[dimension]
            if place[dimension] < sizes[dimension]:
                break
            start -= place[dimension] * steps[dimension]
            place[dimension] = 0


def _strides(shape: Sizes) -> Sizes:
    return tuple(math.prod(shape[dimension + 1 :]) for dimension in range(len(shape)))


def _follow_each_other(chunks: list[Chunk], shape: Sizes) -> bool:
    """Return True if the parts, one after the other, are the tensor: cut along its first dimension alone."""
    return all(chunk.sizes[1:] == shape[1:] for chunk in chunks)
