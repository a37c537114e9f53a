"""SageMaker's model parallel library v2 (SMP): parameters cut over as many ranks as it is told, copies beside them.

    torch.sagemaker.init({"hybrid_shard_degree": 8})
    model = FullyShardedDataParallel(model)         # the library gives it its groups of ranks

https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-model-parallel-v2-reference.html. Checkpoints are the
store's own, by the names of the recipe's model (drivetrain.training.torch.parallel.flat_slice), so any other strategy
loads them.

Tensor, context and expert parallelism are not offered here: `torch.sagemaker.transform` renames and splits the
parameters of the models that it knows in ways that are not documented, so no other strategy could load what it saves.
`fsdp_tp` and `cp` do the same; or run a script of your own (docs/own_script.md).
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp.wrap import CustomPolicy

from drivetrain.base.errors import InputError
from drivetrain.training.torch import gradients, strategy
from drivetrain.training.torch.optimizer_state import Entries, OptimizerState
from drivetrain.training.torch.parallel.flat_slice import FlatSlice
from drivetrain.training.torch.parallel.sharded import local
from drivetrain.training_scripts.strategies import fsdp

FRAMEWORK = "torch"
DIMENSIONS = ("replicate", "shard")
MIN_TORCH = "2.5"
LIBRARY = "smp"
INSTEAD = "hsdp"
SUMMARY = "slices within a host, copies between hosts, by SageMaker's model parallel library"

WRAPPER = "_fsdp_wrapped_module."


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of SMP v2."""

    replicate: int = 0
    """How many copies of the model there are; 0: as many as the processes make."""
    shard: int = 0
    """Its hybrid_shard_degree: into how many slices each copy is cut; 0: the processes of a host."""

    def __post_init__(self) -> None:
        if self.shard == 1:
            raise ValueError(
                "shard=1 leaves every copy whole; allowed are whole numbers from 2, or 0. Use strategy ddp"
            )


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy. With one process it is the same as `single`."""

    options: Options
    needs_mesh = False  # the library makes the groups
    is_watched = False  # its parameters are slices of FSDP's own kind

    def degrees(self) -> dict[str, int]:
        shard = self.options.shard or (0 if self.options.replicate else self.process.local_world_size)
        return {"replicate": self.options.replicate, "shard": shard}

    def check(self) -> None:
        if self.config.compile:
            raise InputError(
                "compile=True under strategy 'smp', whose hooks fetch parameters that compiled layers do not wait for. "
                "Leave it off; or use strategy hsdp."
            )

    def distribute(self, model: nn.Module) -> nn.Module:
        self.shape_layers(model)
        self._slices: dict[str, FlatSlice] = {}
        self._handles: list[Any] = []
        if self.process.world_size == 1:
            return model
        start_library(self.layout.degrees["shard"])
        # Before parameters are cut: recipes group them by their dimensions.
        self.holds_slices = False
        self._whole = super().build_optimizer()
        names = {parameter: name for name, parameter in model.named_parameters()}
        self._kept = {
            name: names.get(tensor, name)  # one that several layers share has several names
            for name, tensor in super().model_state().items()
        }
        wanted = set(fsdp.layers_to_shard(model))
        self._root = FullyShardedDataParallel(
            model,
            sharding_strategy=ShardingStrategy.HYBRID_SHARD,
            auto_wrap_policy=CustomPolicy(lambda module: module in wanted),
            device_id=self.process.device,
            use_orig_params=True,
        )
        self._handles = [m._handle for m in FullyShardedDataParallel.fsdp_modules(self._root) if m._handle]
        self._trained = {name: parameter for parameter, name in names.items()}
        self._slices = slices_of(self._handles, names)
        self.model = self._root
        return self._root

    def build_optimizer(self) -> torch.optim.Optimizer:
        if not self._slices:
            return super().build_optimizer()
        self.parameters = dict(self._slices)
        return self._whole

    def build_optimizer_state(self) -> OptimizerState:
        if not self._slices:
            return super().build_optimizer_state()
        return SlicedState(self.optimizer, self._trained, self._slices)

    def trained(self) -> Sequence[nn.Parameter]:
        return list(self._trained.values()) if self._slices else super().trained()

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        return gradients.total_norm(parameters, self.layout, slices=self.layout.degrees["shard"])

    def model_state(self) -> dict[str, Any]:
        if not self._slices:
            return super().model_state()
        buffers = {name.replace(WRAPPER, ""): buffer for name, buffer in self._root.named_buffers()}
        return {name: self._slices.get(own, buffers.get(own)) for name, own in self._kept.items()}

    def synchronizing(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last or not self._slices else self._root.no_sync()

    def _step(self) -> None:
        # An optimizer keeps a state of what has a gradient: also here, where another rank has all of its numbers.
        none_here = [parameter for parameter in self.trained() if not parameter.numel()]
        for parameter in none_here:
            parameter.grad = torch.zeros_like(parameter)
        super()._step()
        for parameter in none_here:
            parameter.grad = None

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        """What is whole after a forward pass has the numbers from before: it is put together anew."""
        with super().in_evaluation():
            self._cut()
            yield
        self._cut()

    def _cut(self) -> None:
        for handle in self._handles:
            if hasattr(handle.flat_param, "_local_shard"):  # nothing is whole before the first forward pass
                handle.reshard(free_unsharded_flat_param=True)


def start_library(degree: int) -> None:
    """Initialize SMP in the processes that have joined.

    Raises:
        InputError: it is not installed, or has begun with another degree.
    """
    try:
        library: Any = importlib.import_module("torch.sagemaker")
    except ImportError as error:
        raise InputError(
            f"strategy 'smp' needs AWS's library torch.sagemaker ({error}), which only images of AWS hold. Here use "
            "strategy hsdp: it gives the same results."
        ) from error
    if not library.is_initialized():
        library.init({"hybrid_shard_degree": degree})
    began = library.state.hybrid_shard_degree
    if began != degree:
        raise InputError(
            f"strategy 'smp': shard {degree}, but the library began with hybrid_shard_degree={began}, which the job's "
            "mp_parameters give. Give the same twice, or one of them."
        )


def slices_of(handles: Sequence[Any], names: Mapping[nn.Parameter, str]) -> dict[str, FlatSlice]:
    """This rank's numbers of each parameter, by name: a range of the flat parameter that FSDP makes of a layer.

    Args:
        handles: FSDP's, one a layer.
        names: of the parameters, before they were cut.
    """
    found: dict[str, FlatSlice] = {}
    for handle in handles:
        flat = handle.flat_param
        for parameter, shape, info in zip(flat._params, flat._shapes, flat._shard_param_infos, strict=True):
            place, count = (info.offset_in_shard, info.numel_in_shard) if info.in_shard else (0, 0)
            numbers = flat.detach()[place : place + count]
            start = info.intra_param_start_idx if info.in_shard else 0
            found[names[parameter]] = FlatSlice(numbers, torch.Size(shape), start, handle.process_group)
    return {name: found[name] for name in names.values()}


class SlicedState(OptimizerState):
    """Of an optimizer that steps on ranges of numbers."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: Mapping[str, nn.Parameter],
        slices: Mapping[str, FlatSlice],
    ) -> None:
        super().__init__(optimizer, parameters)
        self.slices = slices

    def entries(self) -> Entries:
        return {
            name: {
                entry: self.slices[name].like(value) if value.shape == self.slices[name].flat.shape else value
                for entry, value in of_it.items()
            }
            for name, of_it in super().entries().items()
        }

    def empty(self, parameter: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | FlatSlice:
        own = self.slices[parameter]
        return own.empty_like(dtype) if tuple(own.shape) == shape else torch.empty(shape, dtype=dtype)

    def adopt(self, entries: Entries, saved: Mapping[str, Mapping[str, Any]]) -> None:
        super().adopt({name: {k: local(v) for k, v in of_it.items()} for name, of_it in entries.items()}, saved)
