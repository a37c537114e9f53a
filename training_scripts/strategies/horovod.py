"""Horovod: every process holds the whole model, and Horovod averages the gradients while the backward pass still runs.

A. Sergeev and M. Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018
(https://arxiv.org/abs/1802.05799). Gradients travel in fixed groups (Horovod's `grouped_allreduce`), each reduced by
itself: Horovod otherwise fuses what happens to be ready, and with three processes or more the order in which numbers
are added, and so the last bits of a resumed training, would depend on the clock. Its `DistributedOptimizer` is not
used: it makes a new class of the recipe's optimizer, and it hangs where a rank skips a layer that another rank uses.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from drivetrain.training import horovod as shared
from drivetrain.training.recipe import Batch
from drivetrain.training.torch import strategy
from drivetrain.training.torch.freezing import refuse_freed
from drivetrain.training.torch.layers import refuse_sparse_gradients

FRAMEWORK = "torch"
DIMENSIONS = ("replicate",)
MIN_TORCH = "2.6"
NEEDS = ("horovod",)
SUMMARY = "every process holds the model, Horovod averages gradients"
CHOICES = {"compression": ("none", "fp16")}
BOUNDS = {"group_mb": (0.000001, 1_000_000)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of Horovod. What tunes Horovod itself stays in its variables, such as HOROVOD_CYCLE_TIME."""

    group_mb: float = 25.0
    """Gradients travel together until they are this large."""
    compression: str = "none"
    """Send gradients in fp16, half the bytes of fp32, rounded; or none."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy. With one process it is the same as `single`."""

    needs_mesh = False
    options: Options

    def check(self) -> None:
        self.horovod = shared.start("torch", self.process) if self.process.world_size > 1 else None

    def build_optimizer(self) -> torch.optim.Optimizer:
        self._gradients: GroupedGradients | None = None
        if self.horovod:
            trained = {name: each for name, each in self.parameters.items() if each.requires_grad}
            self._frozen = [name for name in self.parameters if name not in trained]
            self._gradients = GroupedGradients(self.horovod, trained, self.options)
        return super().build_optimizer()

    def distribute(self, model: nn.Module) -> nn.Module:
        if self.horovod:
            refuse_sparse_gradients(model, "Horovod")
        return super().distribute(model)

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> float | Tensor:
        loss = super().backward(batch, num_samples=num_samples, gradient_scale=gradient_scale)
        if self.horovod and self._frozen:
            refuse_freed(self.parameters, self._frozen, self.name)
        return loss

    def synchronizing(self, last: bool) -> AbstractContextManager[None]:
        return self._gradients.averaging() if last and self._gradients else nullcontext()


class GroupedGradients:
    """Gradients in groups, each averaged over the ranks as soon as a backward pass has filled it.

    Args:
        parameters: those that are trained, by name; the same on every rank.
    """

    def __init__(self, horovod: Any, parameters: Mapping[str, nn.Parameter], options: Options) -> None:
        self._horovod = horovod
        self._compression = getattr(horovod.Compression, options.compression)
        trained = list(parameters.values())
        sizes = [(each.numel() * each.element_size(), each.dtype) for each in trained]
        groups = shared.in_groups(sizes, options.group_mb)
        self._groups = [[trained[place] for place in group] for group in groups]
        self._group_of = {each: number for number, group in enumerate(self._groups) for each in group}
        self._pending: list[int] = []
        """By group: parameters without a gradient of this pass; empty while nothing travels."""
        self._travelling: dict[int, tuple[Any, list[Any], list[bool]]] = {}
        for parameter in parameters.values():
            parameter.register_post_accumulate_grad_hook(self._filled)

    @contextmanager
    def averaging(self) -> Generator[None]:
        """A backward pass whose gradients, with those accumulated before, are averages over the ranks at its end."""
        self._pending = [len(group) for group in self._groups]
        try:
            yield
            for number in range(len(self._groups)):
                if number not in self._travelling:  # not all of it was used on this rank
                    self._send(number)
            for number, (handle, contexts, missing) in sorted(self._travelling.items()):
                *came, there = self._horovod.synchronize(handle)
                for parameter, average, context in zip(self._groups[number], came, contexts, strict=False):
                    average = self._compression.decompress(average, context)
                    if average is not parameter.grad:
                        assert parameter.grad is not None
                        parameter.grad.copy_(average)
                if any(missing):  # only such a rank needs to look, and to wait for it
                    for parameter, share in zip(self._groups[number], there.tolist(), strict=True):
                        if share == 0:
                            parameter.grad = None
        finally:
            self._pending = []
            self._travelling = {}

    def _filled(self, parameter: nn.Parameter) -> None:
        if not self._pending:  # a piece that is only accumulated
            return
        number = self._group_of[parameter]
        self._pending[number] -= 1
        if self._pending[number] == 0:
            self._send(number)

    def _send(self, number: int) -> None:
        """All ranks send the same: a parameter without a gradient counts as one of zeros where another rank has one.

        Where no rank has one it stays without, as in one process: with zeros an optimizer would decay it, and move it
        by what it remembers. So with each group goes on how many ranks each gradient is there.
        """
        group = self._groups[number]
        missing = [parameter.grad is None for parameter in group]
        for parameter in group:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        there = torch.tensor([float(not each) for each in missing], dtype=group[0].dtype, device=group[0].device)
        sent = [*(parameter.grad for parameter in group), there]
        compressed = [self._compression.compress(tensor) for tensor in sent]
        # Divided first, so that a sum of many ranks in fp16 does not overflow.
        handle = self._horovod.grouped_allreduce_async_(
            [tensor for tensor, _ in compressed],
            name=f"gradients.{number}",
            op=self._horovod.Sum,
            prescale_factor=1.0 / self._horovod.size(),
        )
        self._travelling[number] = (handle, [context for _, context in compressed], missing)
