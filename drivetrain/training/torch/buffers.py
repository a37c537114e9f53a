"""Buffers, such as the running statistics of a batch normalization: each rank's differ, as its samples do.

Those of the first rank are everyone's: at the start of each step, and whenever the model is evaluated. So what is
evaluated is what is saved, and what a restarted training goes on with. (torch's DistributedDataParallel does the same;
here every strategy does.)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from drivetrain.training.layout import Layout
from drivetrain.training.torch.parallel.sharded import local


class SharedBuffers:
    """The buffers of this rank's part of the model; ranks of other pipeline stages have other ones.

    A forward pass may put another tensor in the place of a buffer (`self.mean = 0.9 * self.mean + ...`): it is shared
    from then on. One of another shape or type is each rank's own, as caches are that grow with the longest input.
    """

    def __init__(self, model: nn.Module, group: dist.ProcessGroup | None) -> None:
        self._group = group
        self._source = dist.get_process_group_ranks(group)[0] if group else 0
        places: dict[Tensor, tuple[dict[str, Tensor | None], str]] = {}
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    places.setdefault(buffer, (module._buffers, name))
        self._buffers, self._places = list(places), list(places.values())
        self._by_type = self._sorted()

    def agree(self) -> None:
        """Take over those of the first rank. Every rank must call this."""
        is_as_it_was = True
        for number, (holder, name) in enumerate(self._places):
            if holder.get(name) is not self._buffers[number]:
                is_as_it_was &= not self._follow(number)
        if not is_as_it_was:
            self._by_type = self._sorted()
        for buffers in self._by_type.values():
            broadcast(buffers, source=self._source, group=self._group)

    def _follow(self, number: int) -> bool:
        """Share what is now in the place of a buffer, if the message has room for it."""
        holder, name = self._places[number]
        now, before = holder.get(name), self._buffers[number]
        if now is None or (type(now), now.shape, now.dtype, now.device) != (
            type(before),
            before.shape,
            before.dtype,
            before.device,
        ):
            return False
        # In memory of its own: it may be a view of the batch, which nobody should write to.
        holder[name] = self._buffers[number] = now.detach().clone(memory_format=torch.contiguous_format)
        return True

    def _sorted(self) -> dict[torch.dtype, list[Tensor]]:
        found: dict[torch.dtype, list[Tensor]] = {}
        for buffer in self._buffers:
            found.setdefault(buffer.dtype, []).append(buffer)
        return found


def shared_buffers(model: nn.Module, layout: Layout) -> SharedBuffers | None:
    """Those of this rank's part, or None where there is nothing to agree on. Every rank must call this."""
    if layout.stage_size == 1:
        return None
    group = layout.stage_group()  # is made by all ranks together, also by those of stages without buffers
    return SharedBuffers(model, group) if any(True for _ in model.buffers()) else None


@contextmanager
def kept_modules(model: nn.Module) -> Generator[None]:
    """Undo what forward passes do inside: afterwards each module has the buffers that it had, with their
    values, and every attribute what it was set to."""
    held = [(module, dict(vars(module)), dict(module._buffers)) for module in model.modules()]
    values = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for module, attributes, buffers in held:
            for name in [name for name in vars(module) if name not in attributes]:
                del vars(module)[name]
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)
        with torch.no_grad():
            for buffer, value in values:
                buffer.copy_(value)


@torch.no_grad()
def broadcast(tensors: list[Tensor], *, source: int = 0, group: dist.ProcessGroup | None = None) -> None:
    """Tensors of one type, in one message."""
    held = [local(tensor) for tensor in tensors]
    flat = torch.cat([tensor.flatten() for tensor in held])
    dist.broadcast(flat, src=source, group=group)
    values = flat.split([tensor.numel() for tensor in held])
    torch._foreach_copy_(held, [value.view_as(tensor) for value, tensor in zip(values, held, strict=True)])
