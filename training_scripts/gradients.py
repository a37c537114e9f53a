"""The length of the whole gradient, on every layout, and cutting it to a bound.

torch's clip_grad_norm_ cannot mix parameters that are DTensors with ones that are not, nor see those of other pipeline
stages. Here each rank adds up the squares it holds, divided by the number of ranks that hold the same ones, and one
all_reduce adds the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.training_scripts.layout import Layout
from drivetrain.training_scripts.sharded import local, num_slices


def settle(parameters: Sequence[nn.Parameter]) -> None:
    """Add up the gradients that are still sums to be made: those of whole parameters in layers that split the work."""
    for parameter in parameters:
        gradient = parameter.grad
        if not (isinstance(gradient, DTensor) and isinstance(parameter, DTensor)):
            continue
        if gradient.placements != parameter.placements:
            parameter.grad = gradient.redistribute(placements=parameter.placements)


def total_norm(parameters: Sequence[nn.Parameter], layout: Layout) -> Tensor:
    """The Euclidean norm of all gradients together, the same on every rank; shape []."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    stages = layout.degrees.get("stage", 1)
    if stages == 1 and not any(isinstance(g, DTensor) for g in gradients):
        return nn.utils.get_total_norm(gradients)  # every rank has the whole gradient
    world_size = layout.process.world_size
    held = [local(g) for g in gradients]
    squares = torch.zeros((), dtype=held[0].dtype if held else torch.float32, device=layout.process.device)
    if held:
        # holders of the same numbers: every rank, but for those that hold another slice or another stage
        weights = torch.tensor([num_slices(g) * stages / world_size for g in gradients], dtype=squares.dtype)
        norms = torch.stack(torch._foreach_norm(held))
        squares = (norms.square() * weights.to(norms.device)).sum()
    dist.all_reduce(squares)
    return squares.sqrt()


def scale(parameters: Sequence[nn.Parameter], factor: Tensor | float) -> None:
    """Multiply every gradient by `factor`."""
    gradients = [local(p.grad) for p in parameters if p.grad is not None]
    if gradients:
        torch._foreach_mul_(gradients, factor)
