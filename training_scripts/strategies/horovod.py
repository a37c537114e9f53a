"""Horovod: every process holds the whole model, and Horovod averages the gradients while the backward pass still runs.

A. Sergeev and M. Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018
(https://arxiv.org/abs/1802.05799). Gradients travel in fixed groups (Horovod's `grouped_allreduce`), each reduced by
itself: Horovod otherwise fuses what happens to be ready, and with three processes or more the order in which numbers
are added, and so the last bits of a resumed training, would depend on the clock. Its `DistributedOptimizer` is not
used: it makes a new class of the recipe's optimizer, and it hangs where a rank skips a layer that another rank uses.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.launch import horovod as launch
from drivetrain.training.process import Process
from drivetrain.training.torch import strategy

FRAMEWORK = "torch"
DIMENSIONS = ("replicate",)
MIN_TORCH = "2.6"
NEEDS = ("horovod",)
SUMMARY = "every process holds the model, Horovod averages gradients"
CHOICES = {"compression": ("none", "fp16")}
BOUNDS = {"group_mb": (0.000001, 1_000_000)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of Horovod. What tunes Horovod itself stays in its variables, such as HOROVOD_CYCLE_TIME."""

    group_mb: float = 25.0
    """Gradients travel together until they are this large."""
    compression: str = "none"
    """Send gradients in fp16, half the bytes of fp32, rounded; or none."""

    def __post_init__(self) -> None:
        least, most = BOUNDS["group_mb"]
        if not least <= self.group_mb <= most:
            raise ValueError(f"group_mb={self.group_mb}; allowed are numbers from {least:f} to {most}")
        allowed = CHOICES["compression"]
        if self.compression not in allowed:
            raise ValueError(f"compression={self.compression!r}; allowed are {', '.join(allowed)}")


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy. With one process it is the same as `single`."""

    needs_mesh = False
    options: Options

    def check(self) -> None:
        self.horovod = start_horovod(self.process) if self.process.world_size > 1 else None

    def build_optimizer(self) -> torch.optim.Optimizer:
        self._gradients: GroupedGradients | None = None
        if self.horovod:
            trained = [(name, each) for name, each in self.model.named_parameters() if each.requires_grad]
            self._gradients = GroupedGradients(self.horovod, dict(trained), self.options)
        return super().build_optimizer()

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
        self._groups = in_groups(parameters, int(options.group_mb * 2**20))
        self._group_of = {each: number for number, group in enumerate(self._groups) for each in group}
        self._pending: list[int] = []
        """By group: parameters without a gradient of this pass; empty while nothing travels."""
        self._travelling: dict[int, tuple[Any, list[Any]]] = {}
        for parameter in parameters.values():
            parameter.register_post_accumulate_grad_hook(self._filled)

    @contextmanager
    def averaging(self) -> Generator[None]:
        """A backward pass whose gradients, with those accumulated before, are averages over the ranks at its end."""
        self._pending = [len(group) for group in self._groups]
        try:
            yield
            for number, group in enumerate(self._groups):
                if number not in self._travelling:
                    for parameter in group:  # which this rank did not use; another one may have
                        if parameter.grad is None:
                            parameter.grad = torch.zeros_like(parameter)
                    self._send(number)
            for number, (handle, contexts) in sorted(self._travelling.items()):
                came = self._horovod.synchronize(handle)
                for parameter, average, context in zip(self._groups[number], came, contexts, strict=True):
                    average = self._compression.decompress(average, context)
                    if average is not parameter.grad:
                        assert parameter.grad is not None
                        parameter.grad.copy_(average)
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
        gradients = (parameter.grad for parameter in self._groups[number])
        compressed = [self._compression.compress(gradient) for gradient in gradients]
        # Divided first, so that a sum of many ranks in fp16 does not overflow.
        handle = self._horovod.grouped_allreduce_async_(
            [tensor for tensor, _ in compressed],
            name=f"gradients.{number}",
            op=self._horovod.Sum,
            prescale_factor=1.0 / self._horovod.size(),
        )
        self._travelling[number] = (handle, [context for _, context in compressed])


def in_groups(parameters: Mapping[str, nn.Parameter], most_bytes: int) -> list[list[nn.Parameter]]:
    """Parameters in the order in which a backward pass is likely to come to them, of one type and about `most_bytes`
    a group."""
    groups: list[list[nn.Parameter]] = []
    filled = 0
    for parameter in reversed(list(parameters.values())):
        size = parameter.numel() * parameter.element_size()
        if not groups or filled + size > most_bytes or groups[-1][0].dtype != parameter.dtype:
            groups.append([])
            filled = 0
        groups[-1].append(parameter)
        filled += size
    return groups


def start_horovod(process: Process) -> Any:
    """horovod.torch in the processes that have joined, over gloo; every rank must call it, whatever launched them.

    Raises:
        InputError: Horovod is not installed, or not built for torch.
    """
    try:
        import horovod.torch as horovod  # pyright: ignore[reportMissingImports]  # (built here)
    except ImportError as error:
        raise InputError(refusal(str(error))) from error
    if not hasattr(horovod, "init"):  # it is imported all the same, with a warning
        raise InputError(refusal("the installed one was built without torch"))
    if horovod.is_initialized():
        return horovod
    with ExitStack() as stack:
        port = ""
        if process.is_main:
            port = str(stack.enter_context(launch.rendezvous(process.world_size, process.local_world_size)))
        port = process.broadcast_bytes(port.encode() if port else None).decode()
        address = os.environ.get("MASTER_ADDR", "127.0.0.1")
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
        seconds = str(math.ceil(process.group.timeout))
        os.environ |= {
            **launch.place(process.rank, process.world_size, process.local_world_size),
            **launch.meeting(address, int(port), interface),
            "HOROVOD_DISABLE_GROUP_FUSION": "1",
            # For a process that stands still, and for one that does not come to a collective.
            "HOROVOD_GLOO_TIMEOUT_SECONDS": seconds,
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": seconds,
        }
        horovod.init()
        process.barrier()  # the addresses are kept until all have met
    return horovod


def refusal(reason: str) -> str:
    return f"strategy 'horovod': {launch.refusal(reason, 'torch')} Or use strategy ddp, which needs torch alone."
