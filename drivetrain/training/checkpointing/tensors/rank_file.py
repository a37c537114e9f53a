"""A rank's file: the pieces of tensors that it is to write, in one safetensors file in the host's memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import WriteItem

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer, lay_out
from drivetrain.training.checkpointing.tensors.index import DTYPES, Chunk, Sizes, TensorEntry


def file_name(rank: int, world_size: int) -> str:
    return f"rank-{rank:05d}-of-{world_size:05d}.safetensors"


def is_nothing(item: WriteItem) -> bool:
    """Whether it is the slice of a rank that got none of the tensor."""
    data = item.tensor_data
    return data is not None and not math.prod(data.chunk.sizes) and bool(math.prod(data.size))


def dtype_name(dtype: torch.dtype, tensor: str) -> str:
    """
    Raises:
        InputError: safetensors has no such numbers.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(f"tensor {tensor!r} is of {name}; checkpoints take {', '.join(DTYPES)}.")
    return name


class RankFile:
    """The layout of the items of a plan in the file `name`, and the way of their numbers into a buffer.

    Attributes:
        part: what the index says of this file.
        size: of the file, in bytes.
    """

    def __init__(self, name: str, items: Sequence[WriteItem]) -> None:
        self.name = name
        self.items = items
        described: list[tuple[str, str, Sizes]] = []
        for item in items:
            assert item.tensor_data is not None
            chunk = item.tensor_data.chunk
            dtype = dtype_name(item.tensor_data.properties.dtype, item.index.fqn)
            described.append((_key(item), dtype, tuple(chunk.sizes)))
        self.layout = lay_out(described)
        self.size = self.layout.size
        self.part: dict[str, TensorEntry] = {}
        for item, (key, dtype, sizes) in zip(items, described, strict=True):
            assert item.tensor_data is not None
            offsets = tuple(item.tensor_data.chunk.offsets)
            length = math.prod(sizes) * DTYPES[dtype][1]
            chunk = Chunk(offsets, sizes, name, self.layout.starts[key], length)
            before = self.part.get(item.index.fqn)
            chunks = (*(before.chunks if before else ()), chunk)
            self.part[item.index.fqn] = TensorEntry(dtype, tuple(item.tensor_data.size), chunks)

    def views(self, buffer: HostBuffer) -> list[Tensor]:
        """Where in the buffer each item goes; writes the header."""
        header = torch.frombuffer(bytearray(self.layout.header), dtype=torch.uint8)
        buffer.bytes[: len(header)] = header
        found: list[Tensor] = []
        for item in self.items:
            assert item.tensor_data is not None
            data = item.tensor_data
            start = self.layout.starts[_key(item)]
            found.append(buffer.tensor(start, tuple(data.chunk.sizes), data.properties.dtype))
        return found


@torch.no_grad()
def copy_all(targets: Sequence[Tensor], items: Sequence[WriteItem], resolve: Callable[[MetadataIndex], Tensor]) -> None:
    """The numbers as they are now; when it returns the sources may change."""
    on_device = False
    for target, item in zip(targets, items, strict=True):
        source = resolve(item.index)
        if source.device.type == "cpu" and source.is_contiguous():
            # One thread saturates the memory. torch's own copy would divide each tensor among all of them, and wait for
            # the last one as often as there are tensors: several times as long where a processor is busy.
            ctypes.memmove(target.data_ptr(), source.data_ptr(), target.nbytes)
            continue
        on_device |= source.device.type == "cuda"
        target.copy_(source, non_blocking=True)
    if on_device:
        torch.cuda.current_stream().synchronize()


def _key(item: WriteItem) -> str:
    """The tensor's name; for a slice also which one it is."""
    assert item.tensor_data is not None
    chunk, size = item.tensor_data.chunk, item.tensor_data.size
    if tuple(chunk.sizes) == tuple(size):
        return item.index.fqn
    ranges = (f"{offset}:{offset + length}" for offset, length in zip(chunk.offsets, chunk.sizes, strict=True))
    return f"{item.index.fqn}[{', '.join(ranges)}]"
