"""Buffers, such as the running statistics of a batch normalization: each rank's differ, as its samples do.

Those of the first rank are everyone's: at the start of each step, and whenever the model is evaluated. So what is
evaluated is what is saved, and what a restarted training goes on with. (torch's DistributedDataParallel does the same;
here every strategy does.)
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from drivetrain.training.layout import Layout
from drivetrain.training.torch.parallel.sharded import local


class SharedBuffers:
    """The buffers of this rank's part of the model; ranks of other pipeline stages have other ones."""

    def __init__(self, buffers: Iterable[Tensor], group: dist.ProcessGroup | None) -> None:
        self._group = group
        self._source = dist.get_process_group_ranks(group)[0] if group else 0
        self._by_type: dict[torch.dtype, list[Tensor]] = {}
        for buffer in buffers:
            self._by_type.setdefault(buffer.dtype, []).append(buffer)

    def agree(self) -> None:
        """Take over those of the first rank. Every rank must call this."""
        for buffers in self._by_type.values():
            broadcast(buffers, source=self._source, group=self._group)


def shared_buffers(model: nn.Module, layout: Layout) -> SharedBuffers | None:
    """Those of this rank's part, or None where there is nothing to agree on. Every rank must call this."""
    if layout.stage_size == 1:
        return None
    group = layout.stage_group()  # is made by all ranks together, also by those of stages without buffers
    buffers = list(model.buffers())
    return SharedBuffers(buffers, group) if buffers else None


@torch.no_grad()
def broadcast(tensors: list[Tensor], *, source: int = 0, group: dist.ProcessGroup | None = None) -> None:
    """Tensors of one type, in one message."""
    held = [local(tensor) for tensor in tensors]
    flat = torch.cat([tensor.flatten() for tensor in held])
    dist.broadcast(flat, src=source, group=group)
    values = flat.split([tensor.numel() for tensor in held])
    torch._foreach_copy_(held, [value.view_as(tensor) for value, tensor in zip(values, held, strict=True)])
