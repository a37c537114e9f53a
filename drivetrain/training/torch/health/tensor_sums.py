"""Sums of each parameter's gradient, weights and update, in a few fused operations on the device.

The squares of gradients are summed over all elements; they are the pass over memory that it costs. Weights and updates
are summed over a sample of the elements, the same ones however a tensor is cut: a copy of all weights, to tell what a
step has changed, would take their memory once more. What several ranks hold counts once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Placement, Replicate, distribute_tensor

from drivetrain.training.health.record import TENSOR_COLUMNS
from drivetrain.training.layout import Layout
from drivetrain.training.torch.parallel.sharded import local, num_slices

# Elements a norm is taken of at once: in float32 a norm of millions would be wrong in the fourth digit.
_CHUNK = 65_536
_SAMPLE = 1024
_GOLDEN = (math.sqrt(5) - 1) / 2


class TensorSums:
    """Of the parameters that are trained.

    Args:
        parameters: this rank's, by name; they may be DTensors.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], layout: Layout) -> None:
        trained = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        self.names = tuple(trained)
        self.matrices = tuple(parameter.dim() > 1 for parameter in trained.values())
        self._parameters = list(trained.values())
        stages, world_size = layout.degrees.get("stage", 1), layout.process.world_size
        shares = [num_slices(parameter) * stages / world_size for parameter in self._parameters]
        device = local(self._parameters[0].detach()).device if self._parameters else layout.process.device
        self._device = device
        self._shares = torch.tensor(shares, dtype=torch.float64, device=device)
        self._places: list[Tensor] = []  # of this rank's sampled elements, in each local tensor
        self._owners = torch.empty(0, dtype=torch.int64, device=device)
        self._sums = torch.zeros(0, 0)
        self._before = self._gradients = torch.empty(0)

    @torch.no_grad()
    def before_update(self, scale: float) -> None:
        """Gradients are there, as long as they are; `scale` is what they have been multiplied with."""
        if not self._places:
            self._choose()
        self._sums = torch.zeros(len(self.names), len(TENSOR_COLUMNS), dtype=torch.float64, device=self._device)
        gradients = [None if p.grad is None else _dense(local(p.grad)) for p in self._parameters]
        self._column("size")[:] = torch.tensor(
            [local(parameter).numel() for parameter in self._parameters], dtype=torch.float64, device=self._device
        )
        chunks, owners = [], []
        for row, gradient in enumerate(gradients):
            if gradient is not None and gradient.numel():
                cut = gradient.reshape(-1).split(_CHUNK)
                chunks += cut
                owners += [row] * len(cut)
        if chunks:
            squares = torch.stack(torch._foreach_norm(chunks)).double().square() / scale**2
            self._column("grad_sq").index_add_(0, torch.tensor(owners, device=self._device), squares)
        self._before = self._sampled(self._parameters)
        fitting = [
            g if g is not None and g.numel() == local(p).numel() else torch.zeros_like(local(p))
            for g, p in zip(gradients, self._parameters, strict=True)
        ]
        self._gradients = self._sampled(fitting)

    @torch.no_grad()
    def after_update(self) -> None:
        """The optimizer has taken its step."""
        before, updates = self._before, self._sampled(self._parameters) - self._before
        moved = self._gradients != 0
        for column, values in (
            ("sampled", torch.ones_like(before)),
            ("weight_sum", before),
            ("weight_sq", before.square()),
            ("update_sq", updates.square()),
            ("with_grad", moved.double()),
            ("changed", (moved & (updates != 0)).double()),
        ):
            self._column(column).index_add_(0, self._owners, values)

    def taken(self) -> Tensor:
        """What this rank adds to the sums of all ranks, float64 [tensors, columns], on the device."""
        sums, self._sums = self._sums * self._shares[:, None], torch.zeros(0, 0)
        self._before = self._gradients = torch.empty(0)
        return sums

    def _column(self, name: str) -> Tensor:
        return self._sums[:, TENSOR_COLUMNS.index(name)]

    def _choose(self) -> None:
        self._places = [places_of(parameter).to(self._device) for parameter in self._parameters]
        counts = torch.tensor([len(places) for places in self._places], device=self._device)
        self._owners = torch.repeat_interleave(torch.arange(len(self._places), device=self._device), counts)

    def _sampled(self, tensors: Sequence[Tensor]) -> Tensor:
        parts = [
            local(tensor).reshape(-1).index_select(0, places).double()
            for tensor, places in zip(tensors, self._places, strict=True)
        ]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64, device=self._device)


@torch.no_grad()
def places_of(tensor: Tensor) -> Tensor:
    """Where the sampled elements of the whole tensor lie in what this rank holds of it, int64; those of other ranks are
    left out."""
    size = tensor.numel()
    count = min(size, _SAMPLE)
    # Evenly spread, and without a step that could be that of the rows.
    spread = torch.arange(count, dtype=torch.float64) if count == size else _spread(count, size)
    places = spread.long()
    if not isinstance(tensor, DTensor) or not count:
        return places
    held = local(tensor)
    found, kept = torch.zeros_like(places), torch.ones_like(places, dtype=torch.bool)
    rest = places
    stride = 1
    for dimension in reversed(range(tensor.dim())):
        length = tensor.shape[dimension]
        own = torch.full((length,), -1)
        own[_held(tensor, dimension)] = torch.arange(held.shape[dimension])
        coordinate = own[rest % length]
        rest = rest // length
        kept &= coordinate >= 0
        found += coordinate * stride
        stride *= held.shape[dimension]
    return found[kept]


def _spread(count: int, size: int) -> Tensor:
    return torch.frac((torch.arange(count, dtype=torch.float64) + 0.5) * _GOLDEN) * size


def _held(tensor: DTensor, dimension: int) -> Tensor:
    """Which indices of a dimension this rank holds, in the order in which it holds them."""
    length = tensor.shape[dimension]
    placements = [_along(placement, dimension) for placement in tensor.placements]
    every = torch.arange(length, device=tensor.device_mesh.device_type)
    # src_data_rank=None: each rank cuts its own slice, nothing travels.
    return distribute_tensor(every, tensor.device_mesh, placements, src_data_rank=None).to_local().cpu()


def _along(placement: Any, dimension: int) -> Placement:
    """The placement of the one dimension, seen as the only one."""
    if getattr(placement, "dim", None) != dimension:
        return Replicate()
    factor = getattr(placement, "split_factor", None)  # a slice of slices
    return type(placement)(0) if factor is None else type(placement)(0, split_factor=factor)


def _dense(gradient: Tensor) -> Tensor:
    """The numbers of a gradient, in a format in which a norm does not overflow."""
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    return gradient if gradient.dtype in (torch.float32, torch.float64) else gradient.float()
