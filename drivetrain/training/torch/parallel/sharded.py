"""A tensor that a rank may hold only a slice of (a DTensor, a FlatSlice), and its conversion from and to the whole
one."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

from drivetrain.training.torch.parallel.flat_slice import Box, FlatSlice


def local(tensor: Tensor | FlatSlice | Box) -> Tensor:
    """This rank's part of a tensor, which shares its memory. (To be called where autograd is off.)"""
    if isinstance(tensor, FlatSlice):
        return tensor.flat
    if isinstance(tensor, Box):
        return tensor.local
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor | FlatSlice) -> Tensor:
    """All of it, detached. Every rank that holds a slice must call this together."""
    if isinstance(tensor, FlatSlice):
        return tensor.whole()
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        return tensor
    # Slices of slices are put together one dimension after the other; all at once, torch does so too, with a warning.
    placements = list(tensor.placements)
    for dimension in range(len(placements)):
        placements[dimension] = Replicate()
        tensor = tensor.redistribute(placements=placements)
    return tensor.to_local()


def empty_like(tensor: Tensor | FlatSlice) -> Tensor | FlatSlice:
    """Room for as much as this rank holds of it."""
    return tensor.empty_like() if isinstance(tensor, FlatSlice) else torch.empty_like(tensor.detach())


def num_slices(tensor: Tensor) -> int:
    """Into how many different slices it is cut."""
    if not isinstance(tensor, DTensor):
        return 1
    slices = 1
    for dimension, placement in enumerate(tensor.placements):
        if not placement.is_replicate():
            slices *= tensor.device_mesh.size(dimension)
    return slices
