"""Gradients added up over ranks after the whole backward pass, in few messages.

For schedules that interleave many backward passes, or split one, where DistributedDataParallel's hooks, which send a
gradient as soon as it is there, would send it too early.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

# Long enough that a message's fixed cost does not count, short enough that its copy is small beside the model.
BUCKET_BYTES = 64 * 1024**2


def reduce_gradients(
    parameters: Sequence[nn.Parameter], group: dist.ProcessGroup | None, *, parts: int, bucket_bytes: int = BUCKET_BYTES
) -> None:
    """Replace each gradient by the sum over `group`, divided by `parts`.

    All ranks send the same messages: a parameter without a gradient counts as one of zeros where another rank has one.
    Where no rank has one it stays without, as in one process: an optimizer leaves such a parameter alone, while with
    zeros it would decay it, and move it by what it remembers.
    """
    sent = [parameter for parameter in parameters if parameter.requires_grad]
    for bucket in _buckets(sent, bucket_bytes):
        missing = [parameter.grad is None for parameter in bucket]
        for parameter in bucket:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in bucket if parameter.grad is not None]
        sizes = [gradient.numel() for gradient in gradients]
        # With each bucket goes how many ranks have each gradient.
        there = torch.tensor([float(not each) for each in missing], dtype=bucket[0].dtype, device=bucket[0].device)
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), there])
        dist.all_reduce(flat, group=group)
        *summed, there = flat.split([*sizes, len(bucket)])
        if parts != 1:
            torch._foreach_div_(summed, parts)
        torch._foreach_copy_(gradients, [s.view_as(g) for s, g in zip(summed, gradients, strict=True)])
        if any(missing):  # only such a rank needs to look, and to wait for it
            for parameter, count in zip(bucket, there.tolist(), strict=True):
                if count == 0:
                    parameter.grad = None


def _buckets(tensors: Sequence[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Neighbours of one type, together no longer than `bucket_bytes` unless one alone is."""
    found: list[list[nn.Parameter]] = []
    room = 0
    for tensor in tensors:
        if not found or tensor.dtype != found[-1][0].dtype or tensor.nbytes > room:
            found.append([])
            room = bucket_bytes
        found[-1].append(tensor)
        room -= tensor.nbytes
    return found
