"""Watch a strategy's steps: when each phase ends, and on some steps the sums of tensors and layers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from drivetrain.training.health import clock as phases
from drivetrain.training.health.clock import Clock
from drivetrain.training.health.record import LAYER_COLUMNS, Floats
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import WHOLE
from drivetrain.training.torch.buffers import kept_modules
from drivetrain.training.torch.generators import kept_generators
from drivetrain.training.torch.health.tensor_sums import TensorSums
from drivetrain.training.torch.layers import layers_of
from drivetrain.training.torch.parallel.sharded import local


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
        """A piece of the batch begins; so many of its samples count; only if `sums`."""
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


@torch.no_grad()
def first_nonfinite(strategy: Any, piece: Batch, *, again: bool) -> str:
    """In words, for a loss that is not finite.

    Args:
        piece: what the loss is of.
        again: compute the outputs again, layer by layer; not where ranks would have to do it together.
    """
    names = [name for name, parameter in strategy.parameters.items() if not _is_finite(local(parameter))]
    if names:
        which = "all weights" if len(names) == len(strategy.parameters) else f"weights up to {names[-1]}"
        return f"{which} were not finite after the step before"
    if not _is_finite(piece.inputs):
        return "the inputs of the batch are not finite"
    if not _is_finite(piece.targets):
        return "the targets of the batch are not finite"
    if not again:
        return ""
    found: list[str] = []

    def look(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
            tensors = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            if not found and not all(_is_finite(one) for one in tensors if isinstance(one, Tensor)):
                found.append(name)

        return hook

    model: nn.Module = strategy.model
    leaves = [(name, module) for name, module in model.named_modules() if next(module.children(), None) is None]
    handles = [module.register_forward_hook(look(name)) for name, module in leaves]
    try:
        with kept_modules(model), kept_generators(strategy.process.device):  # dropout draws what it drew
            strategy.call(model, piece.inputs)
    finally:
        for handle in handles:
            handle.remove()
    if found:
        return f"the outputs of layer {found[0] or 'the model'} are the first that are not finite"
    return "the model's outputs are finite, and the recipe's losses of them are not"


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


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
