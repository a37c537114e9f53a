"""Watch a strategy's steps: when each phase ends, and on some steps the sums of tensors and layers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from drivetrain.training.health import clock as phases
from drivetrain.training.health.clock import Clock
from drivetrain.training.health.record import Floats
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import WHOLE
from drivetrain.training.torch.health.first_nonfinite import first_nonfinite
from drivetrain.training.torch.health.layer_sums import LayerSums
from drivetrain.training.torch.health.tensor_sums import TensorSums


class Watcher:
    """See drivetrain.training.framework.Watcher. The strategy calls what is below, once the loop has asked for it.

    Attributes:
        sums: whether the tensors of this step are summed up. Most are not, and a call that does nothing costs a step as
            much as one that works: the strategy asks before it calls.
    """

    def __init__(self, strategy: Any, clock: Clock) -> None:
        self._strategy, self._clock = strategy, clock
        config, layout = strategy.config, strategy.layout
        device: torch.device = strategy.process.device
        self._tensors = TensorSums(strategy.parameters, layout)
        # Micro-batches of a pipeline are filled up with samples that do not count.
        model = nn.Module() if layout.degrees.get("stage", 1) > 1 else strategy.model
        self._layers = LayerSums(
            model,
            device,
            outermost=config.compile or config.activation_checkpointing,
            share=1 / layout.degrees.get("tensor", 1),
        )
        self.tensors, self.matrices, self.layers = self._tensors.names, self._tensors.matrices, self._layers.names
        self.is_scaled = strategy.loss_scale is not None
        # A GPU is still at work when the call returns: only the CPU's phases are told by a clock.
        self._on_host = device.type == "cpu"
        self.tells_phases = self._on_host and layout.degrees.get("stage", 1) == 1
        self.computes_alone = self.tells_phases and strategy.name in WHOLE
        several = layout.process.world_size > 1
        self._before_forward = phases.COMMUNICATION if several else phases.OTHER
        if self.computes_alone and several:
            clock.leave_out_the_queue(
                meets_before_forward=strategy.meets_before_forward, in_pieces=config.accumulation > 1
            )
        self._note_met = clock.noting(self._before_forward)
        self._note_forward, self._note_backward = clock.noting(phases.FORWARD), clock.noting(phases.BACKWARD)
        self._now = clock.now
        self._hears_gradients = self.tells_phases and isinstance(strategy.module, DistributedDataParallel)
        self._handles: list[Any] = []
        self._last_gradient = 0.0
        self.sums = False
        self.nonfinite = ""
        self.seconds = 0.0
        strategy.watcher = self

    # What the loop asks.

    def begin(self) -> None:
        begun = time.perf_counter()
        self.sums = True
        self._layers.begin()
        if self._hears_gradients:
            for parameter in self._strategy.parameters.values():
                if parameter.requires_grad:
                    self._handles.append(parameter.register_post_accumulate_grad_hook(self._gradient_came))
        # Twice: to call a hook costs a layer and a gradient about as much outside of it, in torch's slower way of
        # calling a module and in cold caches (3 ms with 1,000 layers, where it takes 2 ms to register the hooks).
        self.seconds = 2 * (time.perf_counter() - begun)

    def end(self) -> Callable[[], tuple[Floats, Floats]]:
        begun = time.perf_counter()
        self.sums = False
        self._layers.end()
        while self._handles:
            self._handles.pop().remove()
        taken = [_on_its_way(self._tensors.taken()), _on_its_way(self._layers.taken())]
        self.seconds += self._layers.seconds + time.perf_counter() - begun
        return lambda: (taken[0](), taken[1]())

    # What the strategy tells.

    def has_met(self) -> None:
        """The ranks have met before the forward pass, which is next."""
        if self.tells_phases:
            self._note_met((self._before_forward, self._now()))

    def piece_begins(self, counted: int) -> None:
        """A piece of the batch, of which so many samples count; where `sums`."""
        self._layers.counts = counted > 0

    def forward_done(self, piece: Batch, loss: float | Tensor) -> None:
        """`loss`: the sum of the piece's losses; a float where the model computes on the CPU."""
        if self.tells_phases:
            self._note_forward((phases.FORWARD, self._now()))
        if self._on_host and not self.nonfinite and not math.isfinite(loss):
            again = self._strategy.name in WHOLE and not self._strategy.config.compile
            self.nonfinite = first_nonfinite(self._strategy, piece, again=again) or "no layer is named"
        self._last_gradient = 0.0

    def backward_done(self) -> None:
        self._layers.counts = False
        if not self.tells_phases:
            return
        if self._last_gradient:  # what comes after this rank's last gradient is waiting for others
            self._clock.split(phases.BACKWARD, self._last_gradient, phases.COMMUNICATION)
        else:
            self._note_backward((phases.BACKWARD, self._now()))

    def before_update(self, scale: float) -> None:
        """Gradients are whole, and as long as they are; `scale` is the loss's. Where `sums`."""
        begun = time.perf_counter()
        self._tensors.before_update(scale)
        self.seconds += time.perf_counter() - begun

    def after_update(self) -> None:
        """The weights have moved; where `sums`."""
        begun = time.perf_counter()
        self._tensors.after_update()
        self.seconds += time.perf_counter() - begun

    def _gradient_came(self, parameter: nn.Parameter) -> None:
        self._last_gradient = time.perf_counter()


def _on_its_way(tensor: Tensor) -> Callable[[], Floats]:
    """Begin to copy to the host; what is returned waits for it."""
    if tensor.device.type == "cpu":
        return lambda: tensor.numpy()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    there = torch.cuda.Event()
    there.record()

    def finish() -> Floats:
        there.synchronize()
        return host.numpy()

    return finish
