"""DeepSpeed's ZeRO: optimizer (stage 1), gradients (2) and parameters (3) are dealt out to the processes.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020. DeepSpeed's
engine owns the backward pass and the step. Checkpoints are the store's own, by the names of the recipe's model
(drivetrain.training.torch.parallel.flat_slice): another number of processes or another strategy loads them, and no
conversion to a "universal" format is needed.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.group.gloo import group_timeout
from drivetrain.training.launch.deepspeed import refuse_pipeline_module, without_kernels
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.torch import strategy
from drivetrain.training.torch.accumulation import pieces
from drivetrain.training.torch.freezing import SettledFlags
from drivetrain.training.torch.layers import refuse_single_numbers, refuse_sparse_gradients
from drivetrain.training.torch.optimizer_state import OptimizerState
from drivetrain.training.torch.optimizers import only
from drivetrain.training.torch.parallel.zero import Stage3, Stage12, ZeroState

if TYPE_CHECKING:
    from drivetrain.training.config import Config

FRAMEWORK = "torch"
DIMENSIONS = ("shard",)
MIN_TORCH = "2.6"
NEEDS = ("deepspeed",)
SUMMARY = "DeepSpeed's ZeRO: optimizer, gradients, parameters in slices"
BOUNDS = {"stage": (1, 3)}

# What a ds_config may say of ZeRO: how memory is traded for time. What it computes stays the same.
OF_ZERO = (
    "stage",
    "allgather_bucket_size",
    "allgather_partitions",
    "contiguous_gradients",
    "overlap_comm",
    "reduce_bucket_size",
    "reduce_scatter",
    "round_robin_gradients",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_param_persistence_threshold",
    "stage3_prefetch_bucket_size",
    "sub_group_size",
)
OFFLOADS = ("offload_optimizer", "offload_param", "cpu_offload", "cpu_offload_params")
# What else it may say, besides what a field of ours says (see `_ours`).
FREE = ("zero_optimization", "dump_state", "steps_per_print", "wall_clock_breakdown")
AUTO = "auto"  # what configurations for transformers' Trainer leave to it


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of DeepSpeed's ZeRO."""

    stage: int = 2
    """1 deals out the optimizer's state, 2 the gradients too, 3 the parameters too."""
    ds_config: dict[str, Any] = field(default_factory=dict[str, Any])
    """A DeepSpeed configuration; what contradicts the common options is refused."""

    def __post_init__(self) -> None:
        check_zero(self.ds_config, self.stage)


def check_zero(ds_config: Any, stage: int, called: str = "stage") -> None:
    """
    Raises:
        ValueError: what it says of ZeRO is not `stage`, or is not to be handed on.
    """
    if not isinstance(ds_config, dict):
        raise ValueError(
            f"ds_config={json.dumps(ds_config)}; allowed is a JSON object, such as "
            '{"zero_optimization": {"reduce_bucket_size": 50000000}}'
        )
    of_zero = ds_config.get("zero_optimization", {})
    if not isinstance(of_zero, dict):
        raise ValueError(f"ds_config: zero_optimization={json.dumps(of_zero)}; allowed is a JSON object")
    for name, value in of_zero.items():
        if name in OFFLOADS:
            if value in (False, None, AUTO) or (isinstance(value, dict) and value.get("device") in (None, "none")):
                continue
            raise ValueError(
                f"ds_config: zero_optimization.{name}={json.dumps(value)}: checkpoints do not see what DeepSpeed "
                'moves to the host. Leave it out; or use strategy fsdp with {"cpu_offload": true}'
            )
        if name not in OF_ZERO:
            raise ValueError(f"ds_config: zero_optimization.{name} is not supported. Allowed are {', '.join(OF_ZERO)}")
    given = of_zero.get("stage", AUTO)
    if given not in (AUTO, stage):
        raise ValueError(
            f"ds_config: zero_optimization.stage={json.dumps(given)}, but {called}={stage}. Give the same twice, or "
            "one of them"
        )


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy."""

    options: Options
    engine: Any
    is_watched = False  # its hooks take gradients away, and its parameters are slices of DeepSpeed's own kind

    def check(self) -> None:
        refuse_common_options(self.config, self.options.stage)
        refuse_contradictions(self.options.ds_config, self.config)

    def build_optimizer(self) -> torch.optim.Optimizer:
        """The recipe's, which the engine makes one of slices."""
        optimizer = only(super().build_optimizer(), self.name)
        refuse_what_zero_cannot(self.model)
        self._flags = SettledFlags(self.parameters, self.name)
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        groups = [[names[parameter] for parameter in group["params"]] for group in optimizer.param_groups]
        deepspeed = load_deepspeed(self.process, self.name)
        refuse_pipeline_module(self.model)
        self.engine = start_engine(deepspeed, self.model, optimizer, self._settings())
        self.module = self.engine
        zero = self.engine.optimizer
        self._zero: ZeroState
        if self.options.stage == 3:
            self._zero = Stage3(zero, self.parameters, groups)
            self.parameters = self._zero.sliced()
        else:
            self._zero = Stage12(zero, self.parameters, groups)
        return optimizer

    def build_optimizer_state(self) -> OptimizerState:
        return self._zero

    def model_state(self) -> dict[str, Any]:
        return self._zero.of_model(super().model_state())

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> Tensor:
        total: Tensor | None = None
        for piece, counted, last in pieces(batch, num_samples, self.config.accumulation):
            self.engine.set_gradient_accumulation_boundary(last)
            losses = self.losses_of(piece)
            self._flags.check()
            summed = losses.sum() if counted else losses.sum() * 0.0
            self.engine.backward(summed * gradient_scale, scale_wrt_gas=False)
            loss = summed.detach().double()
            total = loss if total is None else total + loss
        assert total is not None
        return total

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        with super().in_evaluation():
            self._zero.refresh()
            yield
        self._zero.refresh()

    def _update(self, loss_scale: float, measure: bool) -> Tensor | None:
        self.engine.step()
        if self.average:
            self.average.update()
        norm = self.engine.get_global_grad_norm()
        return torch.as_tensor(norm, dtype=self.precision.parameters, device=self.process.device)

    def _settings(self) -> dict[str, Any]:
        return settings(self.options.ds_config, self.config, self.options.stage, self.config.accumulation)


def settings(ds_config: Mapping[str, Any], config: Config, stage: int, accumulation: int) -> dict[str, Any]:
    """A whole ds_config: the user's, and in it what our fields say.

    Args:
        stage: of ZeRO.
        accumulation: backward passes of a step.
    """
    given = {name: value for name, value in ds_config.items() if name in FREE and value != AUTO}
    of_zero = {
        name: value
        for name, value in given.get("zero_optimization", {}).items()
        if value != AUTO and name not in OFFLOADS
    }
    return {
        "steps_per_print": 2**31,
        **given,
        "zero_optimization": {**of_zero, "stage": stage},
        "train_micro_batch_size_per_gpu": 1,  # (it counts no samples: our cursor deals them)
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": config.clip_norm,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


def refuse_what_zero_cannot(model: nn.Module) -> None:
    """
    Raises:
        InputError: parameters that DeepSpeed's ZeRO does not deal out.
    """
    refuse_single_numbers(model, "DeepSpeed")
    refuse_sparse_gradients(model, "DeepSpeed")


def refuse_common_options(config: Config, stage: int, strategy: str = "deepspeed") -> None:
    """
    Raises:
        InputError: common options that DeepSpeed does not have.
    """
    why_not = {
        "fp64": "DeepSpeed keeps its parameters in fp32",
        "fp16": "DeepSpeed scales the loss itself, and so do we: they would not agree",
    }
    if config.precision in why_not:
        raise InputError(
            f"precision {config.precision!r} under strategy {strategy!r}: {why_not[config.precision]}. Use precision "
            "fp32, tf32 or bf16; or strategy fsdp."
        )
    if config.compile and stage == 3:
        raise InputError(
            "compile=True under strategy 'deepspeed' of stage 3, which fetches parameters in hooks that compiled "
            "layers do not run. Use stage 1 or 2; or strategy fsdp."
        )


def refuse_contradictions(given: Mapping[str, Any], config: Config, micro_batches: int = 1) -> None:
    """
    Args:
        micro_batches: of each piece of an accumulation, each with a backward pass of its own.

    Raises:
        InputError: a ds_config says what a field of ours says otherwise, or what is not ours to hand on.
    """
    ours: dict[str, tuple[Any, str]] = {
        "gradient_accumulation_steps": (
            config.accumulation * micro_batches,
            "accumulation" if micro_batches == 1 else "accumulation x micro_batches",
        ),
        "gradient_clipping": (config.clip_norm, "clip_norm"),
        "train_batch_size": (config.global_batch, "global_batch"),
    }
    instead = {
        "optimizer": "the recipe builds the optimizer; give learning_rate and weight_decay",
        "scheduler": "the learning rate follows the common options; give schedule and warmup",
        "amp": "give precision",
        "fp16": "give precision='bf16'",
        "bf16": "give precision='bf16'",
        "pipeline": "stages are those of strategy deepspeed_pp, pp, pp_ddp or tp_pp_fsdp; choose one of these",
        "train_micro_batch_size_per_gpu": "each rank's part follows from global_batch and the number of processes",
    }
    for name, value in given.items():
        if name in FREE or value == AUTO or (isinstance(value, dict) and value.get("enabled") is False):
            continue
        if name in ours:
            own, called = ours[name]
            if value != own:
                raise InputError(
                    f"ds_config: {name}={json.dumps(value)}, but {called}={own!r}. Give the same twice, or leave "
                    f"{name} out of ds_config."
                )
        elif name in instead:
            raise InputError(f"ds_config: {name} is not taken from there: {instead[name]}, and leave it out.")
        else:
            allowed = ", ".join((*FREE, *ours))
            raise InputError(f"ds_config: {name} is not supported under strategy 'deepspeed'. Allowed are {allowed}.")


def load_deepspeed(process: Process, strategy: str) -> Any:
    """The package, told where it is.

    Raises:
        InputError: it is not installed.
    """
    os.environ.setdefault("DS_ACCELERATOR", process.device.type)
    os.environ.setdefault("LOCAL_RANK", str(process.local_rank))  # which DeepSpeed looks for, whatever started it
    try:
        import deepspeed
        from deepspeed.utils import groups, logger
    except ImportError as error:
        raise InputError(
            f"strategy {strategy!r} needs the package deepspeed ({error}). Install drivetrain[deepspeed]; or use "
            "strategy fsdp, which needs torch alone."
        ) from error
    logger.setLevel("ERROR")
    warnings.filterwarnings("ignore", message=r"`torch\.distributed\.\w+` is deprecated", category=FutureWarning)
    without_kernels()
    # DeepSpeed's own would wait half an hour for a peer that hangs.
    groups._WORLD_GROUP = dist.new_group(range(process.world_size), timeout=group_timeout())
    return deepspeed


def start_engine(deepspeed: Any, model: nn.Module, optimizer: torch.optim.Optimizer, config: dict[str, Any]) -> Any:
    """A DeepSpeedEngine, or for a PipelineModule a PipelineEngine, in the processes that have joined."""
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)
    return engine
