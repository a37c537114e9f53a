"""The length of the whole gradient, on every layout, and cutting it to a bound.

torch's clip_grad_norm_ cannot mix parameters that are DTensors with ones that are not, nor see those of other pipeline
stages. Here each rank adds up the squares it holds, divided by the number of ranks that hold the same ones, and one
all_reduce adds the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.training.layout import Layout
from drivetrain.training.torch.parallel.sharded import local, num_slices


def settle(parameters: Sequence[nn.Parameter]) -> None:
    """Add up the gradients that are still sums to be made: those of whole parameters in layers that split the work."""
    for parameter in parameters:
        gradient = parameter.grad
        if not (isinstance(gradient, DTensor) and isinstance(parameter, DTensor)):
            continue
        if gradient.placements != parameter.placements:
            parameter.grad = gradient.redistribute(placements=parameter.placements)


@torch.no_grad()
def total_norm(
    parameters: Sequence[nn.Parameter], layout: Layout, slices: Mapping[nn.Parameter, int] | None = None
) -> Tensor:
    """The Euclidean norm of all gradients together, the same on every rank; shape [].

    `slices`: into how many parts each is cut, one a rank, where its tensor does not say so itself.
    """
    held_in = [(p.grad, slices[p] if slices else 1) for p in parameters if p.grad is not None]
    gradients = [_numbers(gradient) for gradient, _ in held_in]
    stages, world_size = layout.degrees.get("stage", 1), layout.process.world_size
    if gradients and stages == 1 and not slices and not any(isinstance(g, DTensor) for g in gradients):
        # Every rank has the whole gradient. (What torch's get_total_norm computes.)
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    # Holders of the same numbers: every rank, but for those that hold another slice or another stage.
    by_share: dict[float, list[Tensor]] = {}
    for gradient, parts in held_in:
        by_share.setdefault(parts * num_slices(gradient) * stages / world_size, []).append(local(_numbers(gradient)))
    # In float64, where squares of scaled gradients do not overflow.
    device = local(gradients[0]).device if gradients else layout.process.device
    squares = torch.zeros((), dtype=torch.float64, device=device)
    for share, held in by_share.items():
        squares += share * torch.stack(torch._foreach_norm(held)).double().square().sum()
    if world_size > 1:
        dist.all_reduce(squares)
    return squares.sqrt().to(gradients[0].dtype if gradients else torch.float32)


@torch.no_grad()
def scale(parameters: Sequence[nn.Parameter], factor: Tensor | float) -> None:
    """Multiply every gradient by `factor`."""
    gradients = [_numbers(local(p.grad), in_place=True) for p in parameters if p.grad is not None]
    if gradients:
        torch._foreach_mul_(gradients, factor)


def _numbers(gradient: Tensor, *, in_place: bool = False) -> Tensor:
    """A gradient's own numbers: of a sparse one those of the rows that were looked up, each row once unless they are
    changed `in_place`."""
    if not gradient.is_sparse:
        return gradient
    return gradient._values() if in_place else gradient.coalesce().values()
