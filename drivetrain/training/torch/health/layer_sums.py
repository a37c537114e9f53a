"""Sums over the outputs of layers, taken by hooks that are there for one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.training.health.record import LAYER_COLUMNS
from drivetrain.training.torch.layers import layers_of

_CHUNK = 65_536
# Their zeros say nothing of what is learnt.
_LEFT_OUT = (nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd, nn.modules.loss._Loss)


class LayerSums:
    """
    Args:
        model: this rank's part.
        outermost: look at the model's layers from outside: what lies within them is compiled, or computed twice.
        share: how much of a layer's outputs here counts, where several ranks have the same ones.

    Attributes:
        counts: whether this is a pass of training, whose samples count.
        seconds: what the hooks took.
    """

    def __init__(self, model: nn.Module, device: torch.device, *, outermost: bool, share: float) -> None:
        self._modules = dict(_watched(model, outermost=outermost))
        self.names = tuple(self._modules)
        self._device, self._share = device, share
        self._handles: list[Any] = []
        self._sums: list[Tensor] = []
        self._rows: list[int] = []
        self.counts, self.seconds = False, 0.0

    def begin(self) -> None:
        self._sums, self._rows, self.counts, self.seconds = [], [], False, 0.0
        for row, module in enumerate(self._modules.values()):
            # (Zeros of what has weights of its own are chance.)
            zeros = next(module.parameters(recurse=False), None) is None
            self._handles.append(module.register_forward_hook(self._hook(row, zeros)))

    def end(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def taken(self) -> Tensor:
        """float64 [layers, columns], on the device."""
        total = torch.zeros(len(self.names), len(LAYER_COLUMNS), dtype=torch.float64, device=self._device)
        if self._sums:
            rows = torch.tensor(self._rows, device=self._device)
            total.index_add_(0, rows, torch.stack(self._sums))
        self._sums, self._rows = [], []
        return total * self._share

    def _hook(self, row: int, zeros: bool) -> Callable[..., None]:
        def look(module: nn.Module, inputs: Any, outputs: Any) -> None:
            # (While compiled code is traced, and in evaluations, there is nothing to see.)
            if not self.counts or not torch.is_grad_enabled():
                return
            begun = time.perf_counter()
            if (summed := sums_of(outputs, zeros=zeros)) is not None:
                self._rows.append(row)
                self._sums.append(summed)
            self.seconds += time.perf_counter() - begun

        return look


@torch.no_grad()
def sums_of(outputs: Any, *, zeros: bool) -> Tensor | None:
    """Of the first tensor of real numbers among them: elements, squares, zeros (float64 [3]); None without one."""
    tensor = outputs[0] if isinstance(outputs, (tuple, list)) and outputs else outputs
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        return None
    held = tensor.detach()
    held = held.to_local() if isinstance(held, DTensor) else held
    flat = held.reshape(-1)
    if not flat.numel():
        return None
    chunks = (flat if flat.dtype in (torch.float32, torch.float64) else flat.float()).split(_CHUNK)
    squares = torch.stack(torch._foreach_norm(list(chunks))).double().square().sum()
    none = flat.numel() - torch.count_nonzero(flat) if zeros else torch.zeros((), device=flat.device)
    return torch.stack([torch.full_like(squares, flat.numel()), squares, none.double()])


def _watched(model: nn.Module, *, outermost: bool) -> Iterator[tuple[str, nn.Module]]:
    outer = dict(layers_of(model))
    seen = set[nn.Module]()
    for name, module in outer.items() if outermost else model.named_modules():
        is_leaf = next(module.children(), None) is None
        if name and module not in seen and (is_leaf or name in outer) and not isinstance(module, _LEFT_OUT):
            seen.add(module)
            yield name, module
