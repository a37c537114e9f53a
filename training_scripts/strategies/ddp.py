"""Distributed data parallel: each process holds the whole model and works on its part of the global batch.

Gradients are averaged while the backward pass still runs (S. Li et al., "PyTorch Distributed", VLDB 2020). torch's
`Join`, for ranks that run out of data, is not needed: each rank is dealt something in every step, if only a sample
that counts with weight zero.
"""

from __future__ import annotations

import inspect
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import Batch
from drivetrain.training.torch import optimizers, strategy
from drivetrain.training.torch.accumulation import NOTHING, pieces
from drivetrain.training.torch.buffers import kept_modules
from drivetrain.training.torch.freezing import refuse_freed
from drivetrain.training.torch.generators import kept_generators

FRAMEWORK = "torch"
DIMENSIONS = ("replicate",)
MIN_TORCH = "2.6"
SUMMARY = "every process holds the model, gradients are averaged"
CHOICES = {"communication_hook": ("none", "fp16", "bf16")}
BOUNDS = {"bucket_mb": (0.000001, 1_000_000)}  # from a byte; torch counts them in 64 bits

# What travels instead of the gradients. (PowerSGD is left out: each rank keeps the errors that it made, which no
# checkpoint of the whole state holds, so a resumed training would be another one.)
FORMATS = {"fp16": torch.float16, "bf16": torch.bfloat16}

# What torch says in the step after one that did not use all parameters, and how it tells which they are.
UNFINISHED = "Expected to have finished reduction in the prior iteration"
PLACES = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of torch's DistributedDataParallel."""

    bucket_mb: float = 25.0
    """Gradients travel together until they are this large."""
    gradient_as_bucket_view: bool = True
    """Gradients live in the buckets that travel: no second copy of them."""
    static_graph: bool = False
    """Every step uses the same parameters, in the same order: fewer checks."""
    find_unused_parameters: bool = False
    """Some steps leave parameters out; costs a walk through the graph in each step."""
    communication_hook: str = "none"
    """Send gradients in fp16 or bf16, half the bytes of fp32, rounded; or none."""

    def __post_init__(self) -> None:
        if self.static_graph and self.find_unused_parameters:
            raise ValueError("static_graph and find_unused_parameters contradict each other; choose one")


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy. With one process it is the same as `single`."""

    needs_mesh = False
    options: Options

    def distribute(self, model: nn.Module) -> nn.Module:
        self.shape_layers(model)
        if self.process.world_size == 1:
            return model
        options = self.options
        # What travels is settled here, in this order.
        self._travels = [name for name, each in model.named_parameters() if each.requires_grad]
        self._frozen = [name for name, each in model.named_parameters() if not each.requires_grad]
        # The start and the buffers are agreed on as under every other strategy. (torch is about to rename the argument
        # that turns its own way off.)
        buffers = [name for name, _ in model.named_buffers()]
        if ignore := getattr(DistributedDataParallel, "_set_params_and_buffers_to_ignore_for_model", None):
            ignore(model, buffers)  # without, torch sends them, too
        # torch 2.5 has no such argument, and sends the start once more.
        knows = "init_sync" in inspect.signature(DistributedDataParallel).parameters
        once: dict[str, Any] = {"init_sync": False} if knows else {}
        wrapper = Wrapper(
            model,
            device_ids=[self.process.device.index] if self.process.device.type == "cuda" else None,
            **once,
            bucket_cap_mb=options.bucket_mb,  # type: ignore[arg-type]  # torch takes fractions, and says int
            gradient_as_bucket_view=options.gradient_as_bucket_view,
            static_graph=options.static_graph,
            find_unused_parameters=options.find_unused_parameters,
        )
        if options.communication_hook != "none":
            wrapper.register_comm_hook(FORMATS[options.communication_hook], average_rounded)
        self._buckets_are_settled = False
        return wrapper

    def synchronizing(self, last: bool) -> AbstractContextManager[None]:
        return NOTHING if last or self.process.world_size == 1 else self.module.no_sync()  # type: ignore[operator]

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> float | Tensor:
        if self.process.world_size > 1 and not self._buckets_are_settled:
            self._settle_buckets(next(iter(pieces(batch, num_samples, self.config.accumulation)))[0])
        try:
            loss = super().backward(batch, num_samples=num_samples, gradient_scale=gradient_scale)
        except RuntimeError as error:
            if UNFINISHED not in str(error):
                raise
            raise InputError(
                f"strategy {self.name!r}: on rank {self.process.rank} some parameters of the recipe's model got no "
                f"gradient{self._without_gradient(str(error))}. Where some steps leave layers out or freeze them, "
                'give {"find_unused_parameters": true} in strategy_options (which costs a walk through the graph in '
                "each step); a layer that is never used does not belong into the model."
            ) from error
        if self.process.world_size > 1 and self._frozen:
            refuse_freed(self.parameters, self._frozen, self.name)
        return loss

    def _without_gradient(self, message: str) -> str:
        """Their names, where torch tells their places."""
        found = PLACES.search(message)
        names = self._travels
        unused = [names[int(place)] for place in found[1].split() if int(place) < len(names)] if found else []
        return f" ({', '.join(unused[:5])}{', ...' if len(unused) > 5 else ''})" if unused else ""

    def _settle_buckets(self, first: Batch) -> None:
        """Let the wrapper arrange its buckets before the first step.

        It does so after its first backward pass, by the order in which gradients came. The place in a bucket decides in
        which order the ranks' numbers are added, and thereby the last bits of the sum: without this, the first step
        after a restart would differ from the same step of a training that was never interrupted. `first` is what the
        step works on first: a single sample would be too few for layers that normalize over samples.
        """
        self._buckets_are_settled = True
        with kept_modules(self.model), kept_generators(self.process.device):  # a model may draw from any
            self.losses(self.call(self.module, first.inputs), first.targets).sum().mul(0.0).backward()
        optimizers.clear_gradients(self.optimizer, self.left_out)


# Names of torch's that it promises to nobody; where one is gone, each forward pass is torch's own.
IS_KNOWN = hasattr(torch.autograd, "_profiler_enabled") and all(
    hasattr(DistributedDataParallel, name) for name in ("_pre_forward", "_run_ddp_forward", "_post_forward")
)


class Wrapper(DistributedDataParallel):
    """torch's, without its record for profilers around each forward pass where nobody profiles: it costs 0.1 ms, since
    it comes into cold caches."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if not IS_KNOWN or torch.autograd._profiler_enabled() or getattr(self, "_delay_all_reduce_all_params", True):
            return super().forward(*inputs, **named)
        inputs, named = self._pre_forward(*inputs, **named)
        return self._post_forward(self._run_ddp_forward(*inputs, **named))


def average_rounded(dtype, bucket):  # (torch holds annotations against its own types, and cannot read these)
    """Average a bucket of gradients over the ranks in another format; a hook of DistributedDataParallel.

    torch's own hook for bf16 refuses to run without CUDA, though gloo adds bf16 as well.
    """
    buffer = bucket.buffer()
    # Divided first, so that a sum of many ranks does not overflow.
    rounded = (buffer / dist.get_world_size()).to(dtype)
    done = dist.all_reduce(rounded, async_op=True).get_future()  # type: ignore[union-attr]
    return done.then(lambda future: buffer.copy_(future.value()[0]))
