"""torch's tensors in the memory of a checkpoint's files: what a rank holds of them, the way there, and the way back."""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer, Pin
from drivetrain.training.checkpointing.tensors.index import Sizes
from drivetrain.training.checkpointing.tensors.pieces import Piece, Read, check_dtype
from drivetrain.training.checkpointing.tensors.rank_file import Place
from drivetrain.training.torch.checkpoints.state import MADE
from drivetrain.training.torch.parallel.flat_slice import Box
from drivetrain.training.torch.parallel.sharded import local


def piece_of(name: str, tensor: Tensor | Box) -> Piece:
    """This rank's piece of a tensor: a slice if it is a DTensor or a box.

    Raises:
        InputError: safetensors has no such numbers.
    """
    dtype, shape = check_dtype(str(tensor.dtype).removeprefix("torch."), name), tuple(tensor.shape)
    if isinstance(tensor, Box):
        return Piece(tensor.name, dtype, tensor.whole, tensor.offsets, shape, part=name)
    if not isinstance(tensor, DTensor):
        return Piece.whole(name, dtype, shape)
    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return Piece(name, dtype, shape, tuple(offsets), tuple(sizes))


def pin_of(device: torch.device) -> Pin | None:
    """The function that registers memory with CUDA; None if nothing is computed there."""
    return _register if device.type == "cuda" else None


def _register(address: int, size: int) -> Callable[[], None] | None:
    if int(torch.cuda.cudart().cudaHostRegister(address, size, 0)):  # type: ignore[union-attr]
        return None
    return lambda: torch.cuda.cudart().cudaHostUnregister(address)  # type: ignore[union-attr]


def tensor_at(buffer: HostBuffer, start: int, shape: Sizes, dtype: str) -> Tensor:
    """A tensor in a buffer's memory, from byte `start` on, which is a multiple of its numbers' size."""
    count, kind = math.prod(shape), getattr(torch, dtype)
    if not count:
        return torch.empty(shape, dtype=kind)
    # A storage of its own, and no view of all bytes: torch.save would write all of these with each tensor, and
    # torch's asynchronous checkpoints fail at a DTensor whose part does not begin its storage.
    return torch.frombuffer(buffer.memory, dtype=kind, count=count, offset=start).view(shape)


def views(buffer: HostBuffer, places: Sequence[Place]) -> list[Tensor]:
    """A tensor for each of `places`."""
    return [tensor_at(buffer, place.start, place.sizes, place.dtype) for place in places]


@torch.no_grad()
def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor | Box]) -> None:
    """Copy this rank's part of `sources`, which may change after the return."""
    on_device = False
    for target, whole in zip(targets, sources, strict=True):
        source = local(whole)
        if source.device.type == "cpu" and source.is_contiguous():
            # One thread saturates the memory. torch's own copy would divide each tensor among all of them, and wait for
            # the last one as often as there are tensors: several times as long where a processor is busy.
            ctypes.memmove(target.data_ptr(), source.data_ptr(), target.nbytes)
            continue
        on_device |= source.device.type == "cuda"
        target.copy_(source, non_blocking=True)
    if on_device:
        torch.cuda.current_stream().synchronize()


@torch.no_grad()
def fill(reads: Sequence[Read], tensors: dict[str, Tensor | Box], buffers: Mapping[str, HostBuffer]) -> None:
    """Bring what is read into the tensors that this rank holds. Those that were made for it, and are on the CPU, become
    the buffer's own memory where that has all of them: two thirds of a training are its optimizer's."""
    counts = Counter(read.name for read in reads)
    kept: dict[str, list[tuple[int, int]]] = {name: [] for name in buffers}
    for read in reads:
        name, chunk = read.name, read.chunk
        source, target = source_of(read, buffers), local(tensors[name]).detach()
        alike = source.dtype == target.dtype and source.shape == target.shape and source.is_contiguous()
        is_made = name.startswith(MADE) and not isinstance(tensors[name], Box)
        if is_made and counts[name] == 1 and alike and target.device.type == "cpu":
            tensors[name] = _in_place_of(tensors[name], source)
            kept[chunk.file].append((chunk.start, chunk.length))
            continue
        for dimension, (offset, length) in enumerate(zip(read.target, read.lengths, strict=True)):
            target = target.narrow(dimension, offset, length)
        target.copy_(source)
    for name, ranges in kept.items():
        buffers[name].keep_only(ranges)


def source_of(read: Read, buffers: Mapping[str, HostBuffer]) -> Tensor:
    """The numbers that are read, in a buffer."""
    source = tensor_at(buffers[read.chunk.file], read.chunk.start, read.chunk.sizes, read.dtype)
    for dimension, (offset, length) in enumerate(zip(read.source, read.lengths, strict=True)):
        source = source.narrow(dimension, offset, length)
    return source


def _in_place_of(tensor: Tensor | Box, memory: Tensor) -> Tensor:
    if not isinstance(tensor, DTensor):
        return memory
    return DTensor.from_local(
        memory, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )
