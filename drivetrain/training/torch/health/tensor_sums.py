"""Sums of each parameter's gradient, weights and update, in a few fused operations on the device.

The squares of gradients are summed over all elements; they are the pass over memory that it costs. Weights and updates
are summed over a sample of the elements, the same ones however a tensor is cut. What several ranks hold counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Placement, Replicate, distribute_tensor

from drivetrain.training.health.record import TENSOR_COLUMNS, sampled_places, sampled_sums
from drivetrain.training.layout import Layout
from drivetrain.training.torch.parallel.sharded import local, num_slices

# Elements a norm is taken of at once: in float32 a norm of millions would be wrong in the fourth digit.
_CHUNK = 65_536


class TensorSums:
    """Sums of the parameters that are trained.

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
        self._places: list[Tensor | None] = []  # of this rank's sampled elements, in each local tensor; None: all
        self._counts = torch.empty(0, dtype=torch.int64, device=device)
        self._sizes = torch.empty(0, dtype=torch.float64, device=device)
        self._sums = torch.zeros(0, 0)
        self._before = self._gradients = torch.empty(0)

    @torch.no_grad()
    def before_update(self, scale: float) -> None:
        """Gradients are there, as long as they are; `scale` is what they have been multiplied with."""
        if not self._places:
            self._choose()
        self._sums = torch.zeros(len(self.names), len(TENSOR_COLUMNS), dtype=torch.float64, device=self._device)
        self._column("size")[:] = self._sizes
        weights = [local(parameter).reshape(-1) for parameter in self._parameters]
        gradients, chunks, owners = list[Tensor](), list[Tensor](), list[int]()
        for row, (parameter, weight) in enumerate(zip(self._parameters, weights, strict=True)):
            gradient = None if parameter.grad is None else _dense(local(parameter.grad)).reshape(-1)
            size = 0 if gradient is None else gradient.numel()
            if gradient is not None and size:
                cut = [gradient] if size <= _CHUNK else gradient.split(_CHUNK)
                chunks += cut
                owners += [row] * len(cut)
            gradients.append(torch.zeros_like(weight) if gradient is None or size != weight.numel() else gradient)
        if chunks:
            squares = torch.stack(torch._foreach_norm(chunks)).double().square() / scale**2
            self._column("grad_sq").index_add_(0, torch.tensor(owners, device=self._device), squares)
        self._before, self._gradients = self._sampled(weights), self._sampled(gradients)

    @torch.no_grad()
    def after_update(self) -> None:
        """The optimizer has taken its step."""
        after = self._sampled([local(parameter).reshape(-1) for parameter in self._parameters])
        self._column("sampled")[:] = self._counts
        for column, sums in sampled_sums(self._before, after, self._gradients != 0, self._of_each).items():
            self._column(column)[:] = sums

    def taken(self) -> Tensor:
        """This rank's part of the sums of all ranks, float64 [tensors, columns], on the device."""
        sums, self._sums = self._sums * self._shares[:, None], torch.zeros(0, 0)
        self._before = self._gradients = torch.empty(0)
        return sums

    def _of_each(self, values: Tensor) -> Tensor:
        return torch.segment_reduce(values.double(), "sum", lengths=self._counts)

    def _column(self, name: str) -> Tensor:
        return self._sums[:, TENSOR_COLUMNS.index(name)]

    def _choose(self) -> None:
        sizes = [local(parameter).numel() for parameter in self._parameters]
        places = [places_of(parameter).to(self._device) for parameter in self._parameters]
        self._sizes = torch.tensor(sizes, dtype=torch.float64, device=self._device)
        self._counts = torch.tensor([len(each) for each in places], device=self._device)
        # (As many as there are, each once: all of them.)
        self._places = [None if len(each) == size else each for each, size in zip(places, sizes, strict=True)]

    def _sampled(self, flat: Sequence[Tensor]) -> Tensor:
        parts = [
            tensor if places is None else tensor.index_select(0, places)
            for tensor, places in zip(flat, self._places, strict=True)
        ]
        return (torch.cat(parts) if parts else torch.empty(0, device=self._device)).double()


@torch.no_grad()
def places_of(tensor: Tensor) -> Tensor:
    """Positions of the whole tensor's sampled elements in this rank's part of it, int64; those of other ranks are
    left out."""
    places = torch.from_numpy(sampled_places(tensor.numel()))
    if not isinstance(tensor, DTensor) or not len(places):
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


def _held(tensor: DTensor, dimension: int) -> Tensor:
    """The indices of a dimension that this rank holds, in its order."""
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
