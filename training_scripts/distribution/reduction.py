"""Gradients added up over ranks after the whole backward pass, in few messages.

For schedules that interleave many backward passes, or split one, where DistributedDataParallel's hooks, which send a
gradient as soon as it is there, would send it too early.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

# Long enough that a message's fixed cost does not count, short enough that its copy is small beside the model.
BUCKET_BYTES = 64 * 1024**2


def reduce_gradients(
    parameters: Sequence[nn.Parameter], group: dist.ProcessGroup | None, *, parts: int, bucket_bytes: int = BUCKET_BYTES
) -> None:
    """Replace each gradient by the sum over `group`, divided by `parts`.

    A parameter without a gradient counts as one of zeros, so that all ranks send the same messages.
    """
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [p.grad for p in parameters if p.grad is not None]
    for bucket in _buckets(gradients, bucket_bytes):
        flat = torch.cat([gradient.flatten() for gradient in bucket])
        dist.all_reduce(flat, group=group)
        if parts != 1:
            flat /= parts
        summed = [t.view_as(g) for t, g in zip(flat.split([g.numel() for g in bucket]), bucket, strict=True)]
        torch._foreach_copy_(bucket, summed)


def _buckets(tensors: Sequence[Tensor], bucket_bytes: int) -> list[list[Tensor]]:
    """Neighbours of one type, together no longer than `bucket_bytes` unless one alone is."""
    found: list[list[Tensor]] = []
    room = 0
    for tensor in tensors:
        if not found or tensor.dtype != found[-1][0].dtype or tensor.nbytes > room:
            found.append([])
            room = bucket_bytes
        found[-1].append(tensor)
        room -= tensor.nbytes
    return found
