"""The index of a checkpoint, as JSON: the place of each piece of each tensor.

    {"format": 1, "tensors": {"model/0.weight": {"dtype": "float32", "shape": [8, 4], "chunks": [
        {"offsets": [0, 0], "sizes": [4, 4], "file": "rank-00000-of-00002.safetensors", "start": 4096, "length": 64},
        ...]}}}

It carries what torch.distributed.checkpoint keeps in its pickled `Metadata`. A chunk may be there several times, in the
files of hosts that do not share a folder: any of them will do. Reading an index needs no torch, and
runs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.errors import unknown_name

INDEX_FILE = "index.json"
STATE_FILE = "state.json"
FORMAT = 1
# Beginnings of the names of tensors: the model's, the optimizer's state, the moving average, the best model so far.
MODEL, OPTIMIZER, AVERAGE, BEST = "model/", "optimizer/", "average/", "best/"
# Between the name of a parameter and that of an entry of the optimizer's state; names of parameters have dots.
ENTRY = "//"

# torch's name of a number format -> that of safetensors, and bytes a number.
DTYPES: dict[str, tuple[str, int]] = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "int16": ("I16", 2),
    "int8": ("I8", 1),
    "uint64": ("U64", 8),
    "uint32": ("U32", 4),
    "uint16": ("U16", 2),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}

Sizes = tuple[int, ...]


def safetensors_header(
    tensors: Iterable[tuple[str, str, Sizes]], *, metadata: Mapping[str, str] | None = None, align: int = 8
) -> tuple[bytes, dict[str, int]]:
    """The header of a safetensors file, and the byte after it at which each tensor starts.

    Args:
        tensors: key, dtype and shape of each, in the order in which their numbers follow, without gaps.
        align: the header's length is a multiple of it.

    Raises:
        KeyError: a dtype that is not in `DTYPES`.
    """
    described: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    starts: dict[str, int] = {}
    end = 0
    for key, dtype, shape in tensors:
        tag, itemsize = DTYPES[dtype]
        starts[key] = end
        end += math.prod(shape) * itemsize
        described[key] = {"dtype": tag, "shape": shape, "data_offsets": [starts[key], end]}
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % align)  # the format's own padding
    return len(text).to_bytes(8, "little") + text, starts


@dataclass(frozen=True)
class Chunk:
    """A box of a tensor: `sizes` numbers from `offsets` on, `length` bytes of `file` from `start` on, row by row."""

    offsets: Sizes
    sizes: Sizes
    file: str
    start: int
    length: int


@dataclass(frozen=True)
class TensorEntry:
    """A whole tensor, and the chunks of it that are somewhere."""

    dtype: str
    shape: Sizes
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Index:
    """The tensors of a checkpoint, by name."""

    tensors: Mapping[str, TensorEntry]

    def to_bytes(self) -> bytes:
        """Chunks on a line each would be easier to read, and three times as large."""
        tensors = {
            name: {"dtype": entry.dtype, "shape": entry.shape, "chunks": [_as_dict(chunk) for chunk in entry.chunks]}
            for name, entry in self.tensors.items()
        }
        return json.dumps({"format": FORMAT, "tensors": tensors}, allow_nan=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Index:
        """
        Raises:
            DamagedError: it is no index, or contradicts itself.
        """
        try:
            document = json.loads(data)
            if document["format"] != FORMAT:
                raise DamagedError(f"{INDEX_FILE} is of format {document['format']!r}; this version reads {FORMAT}")
            return cls({name: _entry(name, given) for name, given in document["tensors"].items()})
        except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as problem:
            if isinstance(problem, DamagedError):
                raise
            raise DamagedError(f"{INDEX_FILE} is no index of a checkpoint ({problem!r:.200})") from None

    def check_targets(self, shapes: Mapping[str, Sizes]) -> None:
        """
        Raises:
            InputError: the checkpoint is of another model: a tensor of these names is missing, or of another shape.
        """
        for name, shape in shapes.items():
            if name not in self.tensors:
                raise unknown_name("tensor", name, self.tensors, advice="The saved model is another one.")
            if self.tensors[name].shape != shape:
                raise InputError(
                    f"tensor {name!r} is of shape {list(self.tensors[name].shape)}, the model's of shape {list(shape)}."
                )

    def misplaced(self, sizes: Mapping[str, int]) -> str | None:
        """A part of a tensor that lies outside of the checkpoint's files, as text: no checksum can find that."""
        for name, entry in self.tensors.items():
            for chunk in entry.chunks:
                is_misaligned = chunk.length and chunk.start % DTYPES[entry.dtype][1]
                if is_misaligned or chunk.start + chunk.length > sizes.get(chunk.file, -1):
                    return f"{INDEX_FILE} gives {name} a place in {chunk.file!r:.200} where it cannot be"
        return None

    def incomplete(self) -> str | None:
        """The first tensor with a missing part, as text; None if all are complete."""
        for name, entry in self.tensors.items():
            held = sum(math.prod(sizes) for sizes in {chunk.offsets: chunk.sizes for chunk in entry.chunks}.values())
            if held != math.prod(entry.shape):
                return f"{name}: {held} of {math.prod(entry.shape)} numbers"
        return None


def merge(parts: Iterable[Mapping[str, TensorEntry]]) -> dict[str, TensorEntry]:
    """One entry a tensor from those of several files.

    Raises:
        ValueError: two files hold a tensor of this name that is not the same one.
    """
    found: dict[str, TensorEntry] = {}
    for part in parts:
        for name, entry in part.items():
            before = found.get(name)
            if before and (before.dtype, before.shape) != (entry.dtype, entry.shape):
                raise ValueError(
                    f"{name} is {before.dtype} {list(before.shape)} on one rank and {entry.dtype} {list(entry.shape)} "
                    "on another"
                )
            found[name] = TensorEntry(entry.dtype, entry.shape, (*(before.chunks if before else ()), *entry.chunks))
    return found


def part_to_json(part: Mapping[str, TensorEntry]) -> list[Any]:
    """A file's entries, compact, for the way to the rank that merges them; see `part_from_json`."""
    return [
        [name, entry.dtype, entry.shape, [[c.offsets, c.sizes, c.start, c.length] for c in entry.chunks]]
        for name, entry in part.items()
    ]


def part_from_json(given: list[Any], file: str) -> dict[str, TensorEntry]:
    return {
        name: TensorEntry(
            dtype,
            tuple(shape),
            tuple(Chunk(tuple(offsets), tuple(sizes), file, start, length) for offsets, sizes, start, length in chunks),
        )
        for name, dtype, shape, chunks in given
    }


def _as_dict(chunk: Chunk) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in ("offsets", "sizes", "file", "start", "length")}


def _entry(name: str, given: Mapping[str, Any]) -> TensorEntry:
    dtype, shape = given["dtype"], _sizes(given["shape"])
    chunks = tuple(
        Chunk(
            _sizes(each["offsets"]),
            _sizes(each["sizes"]),
            _text(each["file"]),
            *_sizes([each["start"], each["length"]]),
        )
        for each in given["chunks"]
    )
    if dtype not in DTYPES:
        raise DamagedError(f"{INDEX_FILE}: {name} is of an unknown number format")
    for chunk in chunks:
        ends = [offset + size for offset, size in zip(chunk.offsets, chunk.sizes, strict=True)]
        if len(ends) != len(shape) or any(end > size for end, size in zip(ends, shape, strict=True)):
            raise DamagedError(f"{INDEX_FILE}: a chunk of {name} lies outside of it")
        if chunk.length != math.prod(chunk.sizes) * DTYPES[dtype][1]:
            raise DamagedError(f"{INDEX_FILE}: a chunk of {name} has {chunk.length} bytes")
    return TensorEntry(dtype, shape, chunks)


def _sizes(given: Any) -> Sizes:
    if not isinstance(given, list) or any(type(size) is not int or size < 0 for size in given):
        raise DamagedError(f"{INDEX_FILE}: {given!r:.100} are no sizes")
    return tuple(given)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise DamagedError(f"{INDEX_FILE}: {given!r:.100} is no file name")
    return given
