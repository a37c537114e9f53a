"""Fully sharded data parallel: each process holds a slice of every parameter, gradient and optimizer state.

A layer's parameters are put together just before it computes, and thrown away afterwards (S. Rajbhandari et al., "ZeRO:
Memory Optimizations Toward Training Trillion Parameter Models", SC 2020; torch's `fully_shard`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from drivetrain.training.recipe import Batch
from drivetrain.training.torch import strategy
from drivetrain.training.torch.freezing import SharedFlags
from drivetrain.training.torch.layers import layers_of, refuse_single_numbers, refuse_sparse_gradients
from drivetrain.training.torch.precision import Precision

try:
    from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
except ImportError:  # torch 2.5, the newest that SageMaker's libraries are made for
    from torch.distributed._composable.fsdp import (  # type: ignore[no-redef]
        CPUOffloadPolicy,
        FSDPModule,
        MixedPrecisionPolicy,
        OffloadPolicy,
        fully_shard,
    )

FRAMEWORK = "torch"
DIMENSIONS = ("shard",)
MIN_TORCH = "2.6"
SUMMARY = "every process holds a slice of every layer and works on its part of the batch"
BOUNDS = {"prefetch": (0, None)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of torch's fully_shard."""

    reshard_after_forward: bool = True
    """Throw a layer's parameters away between its forward and its backward pass, and fetch them again."""
    prefetch: int = 0
    """How many layers are fetched ahead of the computing one; 0 leaves it to torch."""
    cpu_offload: bool = False
    """Keep slices and optimizer in the host's memory, and take the steps there."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy."""

    def distribute(self, model: nn.Module) -> nn.Module:
        self.shape_layers(model)
        mesh = self.layout.mesh
        assert mesh is not None
        self.shard(model, mesh)
        return model

    def shard(self, model: nn.Module, mesh: DeviceMesh) -> None:
        """Cut what `model` holds, in place."""
        self.sharded = shard_layers(model, mesh, self.options, self.precision)
        self._flags = SharedFlags(self.sharded)

    def losses_of(self, piece: Batch) -> Tensor:
        losses = super().losses_of(piece)
        self._flags.carry()  # before the backward pass puts layers together again
        return losses

    @contextmanager
    def synchronizing(self, last: bool) -> Generator[None]:
        """Gradients of the pieces are added up whole; the last one's pass cuts and exchanges them."""
        if self.config.accumulation > 1:
            assert isinstance(self.model, FSDPModule)
            self.model.set_requires_gradient_sync(last)
        yield

    def call(self, module: nn.Module, inputs: Tensor) -> Tensor:
        return module(inputs)  # the layers change formats themselves: what travels is already small

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        with super().in_evaluation(), cut_afterwards(self.sharded):
            yield


def shard_layers(model: nn.Module, mesh: DeviceMesh, options: Options, precision: Precision) -> list[FSDPModule]:
    """Cut each layer with parameters, and what is left of the model, into slices; returns them in order.

    Args:
        mesh: of one dimension (shard) or two (replicate, shard).

    Raises:
        InputError: a parameter that torch does not cut.
    """
    refuse_single_numbers(model, "fully_shard")
    refuse_sparse_gradients(model, "fully_shard")
    layers, norms, mixed = layers_to_shard(model), set[nn.Module](), MixedPrecisionPolicy()
    if precision.is_mixed:
        mixed = MixedPrecisionPolicy(
            param_dtype=precision.compute, reduce_dtype=precision.parameters, output_dtype=precision.parameters
        )
        norms = batch_norms(model)
    # As it is in autocast: it takes inputs of half precision, its own numbers stay as exact as its statistics.
    as_given = MixedPrecisionPolicy(cast_forward_inputs=False)
    # Memory that is pinned is for copies to and from a GPU.
    offload = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda") if options.cpu_offload else OffloadPolicy()
    wanted = {*layers, *norms}
    units = [module for module in model.modules() if module in wanted]
    for module in reversed(units):  # what lies within a layer before the layer, which takes the rest
        fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=options.reshard_after_forward,
            mp_policy=as_given if module in norms else mixed,
            offload_policy=offload,
        )
    sharded = cast(list[FSDPModule], units)
    if options.prefetch:
        prefetch(sharded, options.prefetch)
    # The rest is needed first and last: it stays whole between the passes.
    root = fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=mixed, offload_policy=offload)
    return [*sharded, root]


@contextmanager
def cut_afterwards(sharded: Sequence[FSDPModule]) -> Generator[None]:
    """Whole layers that an evaluation leaves behind are not those that training goes on with: throw them away."""
    yield
    for layer in sharded:
        layer.reshard()


def layers_to_shard(model: nn.Module) -> list[nn.Module]:
    """The layers with parameters of their own; one that shares a parameter with another is left to the model."""
    layers = [layer for _, layer in layers_of(model)]
    holders = Counter(parameter for layer in layers for parameter in set(layer.parameters()))
    own = {parameter for parameter in model.parameters() if holders[parameter] == 1}
    return [layer for layer in layers if (mine := set(layer.parameters())) and mine <= own]


def batch_norms(model: nn.Module) -> set[nn.Module]:
    """Modules with running statistics, torch's or not, and with parameters that nobody else has."""
    uses = Counter(parameter for module in model.modules() for parameter in module._parameters.values())
    norms = [module for module in model.modules() if module._buffers.get("running_mean") is not None]
    return {norm for norm in norms if (own := list(norm.parameters())) and all(uses[p] == 1 for p in own)}


def prefetch(layers: list[FSDPModule], count: int) -> None:
    """Fetch `count` layers ahead, in both directions."""
    for number, layer in enumerate(layers):
        if ahead := layers[number + 1 : number + 1 + count]:
            layer.set_modules_to_forward_prefetch(ahead)
        if behind := layers[max(0, number - count) : number][::-1]:
            layer.set_modules_to_backward_prefetch(behind)
