"""SageMaker's model parallel library v2 (SMP): parameters cut over as many ranks as it is told, copies beside them.

    torch.sagemaker.init({"hybrid_shard_degree": 8, "tensor_parallel_degree": 2})
    model = torch.sagemaker.transform(model, load_state_dict_from_rank0=True)   # only with tensor or context
    model = FullyShardedDataParallel(model)         # the library gives it its groups of ranks
    model = offload_wrapper(model)                  # only with activation_offloading

https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-model-parallel-v2-reference.html. Checkpoints are the
store's own, by the names of the recipe's model (drivetrain.training.torch.parallel.flat_slice), so any other strategy
loads them. With tensor or context the model is SMP's own (drivetrain.training.torch.parallel.smp_model): checkpoints
have its names, and load with the same degrees; the model that is handed on has those of transformers again.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, ShardingStrategy, StateDictType
from torch.distributed.fsdp.wrap import CustomPolicy

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import Batch
from drivetrain.training.torch import gradients, strategy
from drivetrain.training.torch.optimizer_state import Entries, OptimizerState
from drivetrain.training.torch.optimizers import refuse_flat_pieces
from drivetrain.training.torch.parallel import smp_model
from drivetrain.training.torch.parallel.flat_slice import FlatSlice
from drivetrain.training.torch.parallel.sharded import local
from drivetrain.training.trees import Tree
from drivetrain.training_scripts.strategies import fsdp

FRAMEWORK = "torch"
DIMENSIONS = ("replicate", "shard", "context", "tensor")
MIN_TORCH = "2.5"
LIBRARY = "smp"
INSTEAD = "hsdp"
SUMMARY = "slices within a host, copies between hosts, by SageMaker's model parallel library"
BOUNDS = {"context": (1, None), "tensor": (1, None), "activation_loading_horizon": (1, None)}

WRAPPER = "_fsdp_wrapped_module."


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of SMP v2."""

    replicate: int = 0
    """How many copies of the model there are; 0: as many as the processes make."""
    shard: int = 0
    """Its hybrid_shard_degree, by context: into how many slices each copy is cut; 0: the processes of a host."""
    context: int = 1
    """Its context_parallel_degree: how many ranks share each text, of a language model of transformers."""
    tensor: int = 1
    """Its tensor_parallel_degree: how many ranks share each matrix, of a language model of transformers."""
    expert: int = 1
    """Its expert_parallel_degree; only 1, for its routers learn otherwise than those of transformers."""
    activation_offloading: bool = False
    """Keep what activation_checkpointing keeps in the host's memory, and fetch it ahead of the backward pass."""
    activation_loading_horizon: int = 2
    """The number of layers whose activations are in the GPU's memory at a time."""

    def __post_init__(self) -> None:
        if self.shard * self.context == 1:
            instead = "tp" if self.tensor > 1 else "ddp"
            raise ValueError(
                f"shard=1 leaves every copy whole; allowed are whole numbers from 2, or 0. Use strategy {instead}"
            )
        if self.expert != 1:
            raise ValueError(
                f"expert={self.expert}; allowed is 1: SMP deals tokens to experts by Megatron's routers, which do not "
                "learn what transformers' do. Use strategy fsdp; or a script of your own by "
                "train_script, with expert_parallel_degree in its distribution"
            )


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy. With one process it is the same as `single`."""

    options: Options
    needs_mesh = False  # the library makes the groups
    is_watched = False  # its parameters are slices of FSDP's own kind

    def degrees(self) -> dict[str, int]:
        options = self.options
        inside = options.context * options.tensor
        shard = options.shard or (0 if options.replicate else max(1, self.process.local_world_size // inside))
        return {"replicate": options.replicate, "shard": shard, "context": options.context, "tensor": options.tensor}

    def check(self) -> None:
        if self.config.compile:
            raise InputError(
                "compile=True under strategy 'smp', whose hooks fetch parameters that compiled layers do not wait for. "
                "Leave it off; or use strategy hsdp."
            )
        if self.options.activation_offloading and not self.config.activation_checkpointing:
            raise InputError(
                "activation_offloading=True under strategy 'smp' without activation_checkpointing: it moves inputs of "
                "checkpointed layers. Give activation_checkpointing=True, too; or leave it off."
            )

    @property
    def library_config(self) -> dict[str, Any]:
        """The configuration for torch.sagemaker.init."""
        degrees, options = self.layout.degrees, self.options
        given: dict[str, Any] = {"hybrid_shard_degree": degrees["shard"] * degrees["context"]}
        for name in ("context", "tensor"):
            if degrees[name] > 1:
                given[f"{name}_parallel_degree"] = degrees[name]
        if options.activation_offloading:
            given |= {
                "sm_activation_offloading": True,
                "activation_loading_horizon": options.activation_loading_horizon,
            }
        return given

    def distribute(self, model: nn.Module) -> nn.Module:
        self._slices: dict[str, FlatSlice] = {}
        self._handles: list[Any] = []
        self._sequences: smp_model.Sequences | None = None
        if self.process.world_size == 1:
            return self.shape_layers(model)
        degrees = self.layout.degrees
        is_transformed = degrees["tensor"] * degrees["context"] > 1
        if is_transformed:
            smp_model.refuse_model(model, self.recipe, degrees)
        library = start_library(self.library_config)
        prefix, probe = "", None
        if is_transformed:
            refuse_other_places(library, self.layout.coordinates["tensor"])
            probe = smp_model.Probe(model, self.layout, lambda inputs: super(Strategy, self).call(model, inputs))
            self.model = model = smp_model.transformed(library, model).to(self.process.device)
            self._sequences = smp_model.Sequences(self.layout)
            if degrees["tensor"] > 1:
                prefix = f"tensor{self.layout.coordinates['tensor']}."
        self.shape_layers(model)
        # Before parameters are cut: recipes group them by their dimensions.
        self.holds_slices = False
        self._whole = super().build_optimizer()
        refuse_flat_pieces(self._whole, self.name)
        names = {parameter: prefix + name for name, parameter in model.named_parameters()}
        self._kept = {
            prefix + name: names.get(tensor, name)  # one that several layers share has several names
            for name, tensor in super().model_state().items()
        }
        self._slices_of_each = {
            parameter: degrees["shard"] * degrees["context"] * (degrees["tensor"] if is_part(parameter) else 1)
            for parameter in names
        }
        wanted = set(fsdp.layers_to_shard(model))
        self._root = FullyShardedDataParallel(
            model,
            sharding_strategy=ShardingStrategy.HYBRID_SHARD,
            auto_wrap_policy=CustomPolicy(lambda module: module in wanted),
            device_id=self.process.device,
            use_orig_params=True,
            sync_module_states=is_transformed,
        )
        self._handles = [m._handle for m in FullyShardedDataParallel.fsdp_modules(self._root) if m._handle]
        self._trained = {name: parameter for parameter, name in names.items()}
        self._slices = slices_of(self._handles, names)
        self.model = offload_wrapper(self._root) if self.options.activation_offloading else self._root
        if probe:
            self._verify(probe)
        return self.model

    def _verify(self, probe: smp_model.Probe) -> None:
        """Refuse a transformed model that is not what it was made of."""
        assert self._sequences is not None
        self.model.eval()
        outputs = super().call(self.model, self._sequences.part({"input_ids": probe.tokens}))
        summed = probe.loss(outputs, self._sequences.part_of_targets(probe.targets))
        (summed * self.layout.degrees["context"]).backward()
        norm = float(self.gradient_norm(self.trained()))
        self.model.zero_grad(set_to_none=True)
        self.model.train()
        logits = self._sequences.whole(outputs.detach(), probe.tokens.shape[1])
        self._cut()
        tolerance = 1e-3 if self.precision.parameters == self.precision.compute == torch.float32 else 5e-2
        probe.compare(logits, norm, self._full_checkpoint(), tolerance)

    def call(self, module: nn.Module, inputs: Tree) -> Tree:
        """Whole outputs on every rank of a replica: for evaluation."""
        if self._sequences is None:
            return super().call(module, inputs)
        part = self._sequences.part(inputs)
        return self._sequences.whole(super().call(module, part), inputs["input_ids"].shape[1])

    def losses_of(self, piece: Batch) -> Tensor:
        if self._sequences is None:
            return super().losses_of(piece)
        # Weighted by their tokens that count, the losses of the parts add up to those of the texts.
        outputs = super().call(self.module, self._sequences.part(piece.inputs))
        return self.losses(outputs, self._sequences.part_of_targets(piece.targets))

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> float | Tensor:
        if self._sequences is None or self._sequences.size == 1:
            return super().backward(batch, num_samples=num_samples, gradient_scale=gradient_scale)
        # FSDP takes the mean also over the ranks that share a text; each has the gradient of its own part of it.
        scale = gradient_scale * self._sequences.size
        total = super().backward(batch, num_samples=num_samples, gradient_scale=scale)
        total = torch.as_tensor(total, dtype=torch.float64, device=self.process.device)
        dist.all_reduce(total, group=self._sequences.group)
        return total

    def whole_model(self, parts: Mapping[str, Any]) -> dict[str, Tensor] | None:
        if self._sequences is None:
            return None
        own = {name: tensor for name, tensor in self.model_state().items() if isinstance(tensor, FlatSlice)}
        kept = {name: tensor.clone() for name, tensor in own.items()}
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.flat.copy_(local(parts[name]))
            self._cut()
            found = self._full_checkpoint()
            for name, tensor in own.items():
                tensor.flat.copy_(kept[name].flat)
            self._cut()
        return found

    def _full_checkpoint(self) -> dict[str, Tensor]:
        """On rank 0, under transformers' names, on the CPU; {} elsewhere. Every rank must call it."""
        # (What is on the CPU already torch would free.)
        config = FullStateDictConfig(rank0_only=True, offload_to_cpu=self.process.device.type != "cpu")
        with FullyShardedDataParallel.state_dict_type(self._root, StateDictType.FULL_STATE_DICT, config):
            found = self._root.state_dict()
        return {name: tensor.detach().cpu().clone() for name, tensor in found.items()} if self.process.is_main else {}

    def build_optimizer(self) -> torch.optim.Optimizer:
        if not self._slices:
            return super().build_optimizer()
        self.parameters = dict(self._slices)
        return self._whole

    def build_optimizer_state(self) -> OptimizerState:
        if not self._slices:
            return super().build_optimizer_state()
        return SlicedState(self.optimizer, self._trained, self._slices)

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        return gradients.total_norm(parameters, self.layout, self._slices_of_each if self._slices else {})

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
        """Gather the parameters anew: after a forward pass they still have earlier numbers."""
        with super().in_evaluation():
            self._cut()
            yield
        self._cut()

    def _cut(self) -> None:
        for handle in self._handles:
            if hasattr(handle.flat_param, "_local_shard"):  # nothing is whole before the first forward pass
                handle.reshard(free_unsharded_flat_param=True)


def is_part(parameter: nn.Parameter) -> bool:
    """Return True if each rank that shares matrices has another part of it."""
    return bool(getattr(parameter, smp_model.IS_PART, False))


def start_library(config: Mapping[str, Any]) -> Any:
    """Initialize SMP in the processes that have joined; returns torch.sagemaker.

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
        library.init(dict(config))
    for option, key in (("shard", "hybrid_shard_degree"), ("tensor", "tensor_parallel_degree")):
        # (A degree that the library was not given may be None.)
        asked, began = config.get(key, 1), getattr(library.state, key) or (1 if key not in config else 0)
        if began != asked:
            raise InputError(
                f"strategy 'smp': {option} {asked}, but the library began with {key}={began}, which the job's "
                "mp_parameters give. Give the same twice, or one of them."
            )
    return library


def refuse_other_places(library: Any, tensor_rank: int) -> None:
    """
    Raises:
        InputError: the library deals matrices to other ranks than the layout.
    """
    if library.state.tp_rank != tensor_rank:
        raise InputError(
            f"strategy 'smp': this process is number {tensor_rank} of those that share matrices, and for the library "
            f"number {library.state.tp_rank}. Use strategy fsdp_tp."
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
    """The state of an optimizer that steps on ranges of numbers."""

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
