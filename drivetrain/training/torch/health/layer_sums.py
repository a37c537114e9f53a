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
_SIZE, _SQUARES, _ZEROS = (LAYER_COLUMNS.index(name) for name in ("size", "sq", "zeros"))
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
        self._forget()
        self.counts, self.seconds = False, 0.0

    def begin(self) -> None:
        self._forget()
        self.counts, self.seconds = False, 0.0
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
        total[:, _SIZE] = torch.tensor(self._sizes, dtype=torch.float64)
        for column, rows, values in (
            (_SQUARES, self._rows, self._norms),
            (_ZEROS, self._rows_of_zeros, self._zeros),
        ):
            if values:
                summed = torch.stack(values).double()
                summed = summed.square() if column == _SQUARES else summed
                total[:, column].index_add_(0, torch.tensor(rows, device=self._device), summed)
        self._forget()
        return total * self._share

    def _forget(self) -> None:
        self._sizes = [0.0] * len(self.names)
        self._rows, self._norms = list[int](), list[Tensor]()  # of chunks of outputs
        self._rows_of_zeros, self._zeros = list[int](), list[Tensor]()

    def _hook(self, row: int, zeros: bool) -> Callable[..., None]:
        def look(module: nn.Module, inputs: Any, outputs: Any) -> None:
            # (While compiled code is traced, and in evaluations, there is nothing to see.)
            if not self.counts or not torch.is_grad_enabled():
                return
            begun = time.perf_counter()
            flat = _numbers_of(outputs)
            if flat is not None and (size := flat.numel()):
                # What can wait is done for all layers together: a thousand small ones cost what is called for each.
                chunks = [flat] if size <= _CHUNK else list(flat.split(_CHUNK))
                self._sizes[row] += size
                self._rows += [row] * len(chunks)
                self._norms += torch._foreach_norm(chunks)
                if zeros:
                    self._rows_of_zeros.append(row)
                    self._zeros.append(size - torch.count_nonzero(flat))
            self.seconds += time.perf_counter() - begun

        return look


def _numbers_of(outputs: Any) -> Tensor | None:
    """The first tensor of real numbers among them, flat and detached, in a format in which a norm does not overflow;
    None without one."""
    tensor = outputs[0] if isinstance(outputs, (tuple, list)) and outputs else outputs
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        return None
    held = tensor.detach()
    flat = (held.to_local() if isinstance(held, DTensor) else held).reshape(-1)
    return flat if flat.dtype in (torch.float32, torch.float64) else flat.float()


def _watched(model: nn.Module, *, outermost: bool) -> Iterator[tuple[str, nn.Module]]:
    outer = dict(layers_of(model))
    seen = set[nn.Module]()
    for name, module in outer.items() if outermost else model.named_modules():
        is_leaf = next(module.children(), None) is None
        if name and module not in seen and (is_leaf or name in outer) and not isinstance(module, _LEFT_OUT):
            seen.add(module)
            yield name, module
