"""DeepSpeed's pipeline engine with ZeRO 1: layers dealt to stages, the optimizer's state of each to its data ranks.

    module = PipelineModule(layers, num_stages=2, loss_fn=...)
    engine.train_batch(micro_batches)       # forward and backward passes of all micro-batches, and the step

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020;
https://www.deepspeed.ai/tutorials/pipeline. Stages are cut as those of strategy pp, and evaluated as those are. Without
ZeRO the engine cuts gradients to a length that each stage measures by itself, and with ZeRO 2 and 3 it has no pipeline.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.accumulation import pieces
from drivetrain.training.torch.freezing import SettledFlags
from drivetrain.training.torch.joining import BACKENDS
from drivetrain.training.torch.optimizer_state import OptimizerState
from drivetrain.training.torch.optimizers import only
from drivetrain.training.torch.parallel.pipeline import PipelineStrategy
from drivetrain.training.torch.parallel.stage_split import StageModule
from drivetrain.training.torch.parallel.zero import Stage12
from drivetrain.training_scripts.strategies import deepspeed

if TYPE_CHECKING:
    import torch.distributed as dist

FRAMEWORK = "torch"
DIMENSIONS = ("stage", "shard")
MIN_TORCH = "2.13"
NEEDS = ("deepspeed",)
SUMMARY = "DeepSpeed's pipeline engine: layers dealt to stages, the optimizer's state in slices"
BOUNDS = {"micro_batches": (0, None)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the pipeline. The recipe's model has to be an nn.Sequential; it is cut between its children."""

    stage: int = 2
    """How many ranks share the layers."""
    shard: int = 0
    """How many pipelines there are, over which each stage's state of the optimizer is cut; 0 for what is left over."""
    micro_batches: int = 0
    """Into how many parts each piece of a batch is cut; 0 for two a stage."""
    split: tuple[str, ...] = ()
    """The first layer of each stage but the first, by name; empty for stages of balanced cost."""
    ds_config: dict[str, Any] = field(default_factory=dict[str, Any])
    """A DeepSpeed configuration; what contradicts the common options is refused."""

    def __post_init__(self) -> None:
        deepspeed.check_zero(self.ds_config, 1, "the only one of its pipeline engine")

    @property
    def schedule(self) -> str:
        return "1f1b"

    @property
    def virtual(self) -> int:
        return 1


class Strategy(PipelineStrategy):
    """See drivetrain.training.torch.parallel.pipeline."""

    options: Options
    engine: Any
    is_watched = False  # the engine takes the step with the last backward pass

    def check(self) -> None:
        super().check()
        if self.config.precision not in ("fp32", "tf32"):
            raise InputError(
                f"precision {self.config.precision!r} under strategy {self.name!r}: DeepSpeed's stages exchange what "
                "they compute in one format. Use precision fp32 or tf32; or strategy pp or pp_ddp."
            )
        if self.config.compile:
            raise InputError(f"compile=True under strategy {self.name!r}. Leave it off; or use strategy pp or pp_ddp.")
        deepspeed.refuse_contradictions(self.options.ds_config, self.config, self.plan.micro_batches)

    def shape_stage(self, stage: StageModule) -> nn.Module:
        self._stage = super().shape_stage(stage)
        return self._stage

    def build_optimizer(self) -> torch.optim.Optimizer:
        """The recipe's, of this stage, which the engine makes one of slices."""
        optimizer = only(super().build_optimizer(), self.name)
        deepspeed.refuse_what_zero_cannot(self.model)
        self._flags = SettledFlags(self.parameters, self.name)
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        groups = [[names[parameter] for parameter in group["params"]] for group in optimizer.param_groups]
        library = deepspeed.load_deepspeed(self.process, self.name)
        library.comm.init_distributed(BACKENDS[self.process.device.type], dist_init_required=False, verbose=False)
        with contextlib.redirect_stdout(io.StringIO()):  # (it tells how it deals layers, which is how they were cut)
            layers = [self._stage if own == self._index else nn.Identity() for own in range(self.plan.num_stages)]
            module = library.PipelineModule(
                layers, num_stages=self.plan.num_stages, loss_fn=self._micro_loss, partition_method="uniform"
            )
            passes = self.config.accumulation * self.plan.micro_batches
            config = deepspeed.settings(self.options.ds_config, self.config, 1, passes)
            self.engine = deepspeed.start_engine(library, module, optimizer, config)
        ranks: dist.ProcessGroup = self.engine.mpu.get_data_parallel_group()
        self._zero = Stage12(self.engine.optimizer, self.parameters, groups, ranks)
        self._shape: tuple[int, ...] = ()
        return optimizer

    @property
    def _index(self) -> int:
        return self.layout.coordinates["stage"]

    def build_optimizer_state(self) -> OptimizerState:
        return self._zero

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> Tensor:
        """Also the step: the engine takes it by itself."""
        if self._index:
            # The ranks of a replica are seeded alike; layers of different stages must not drop the same features.
            torch.manual_seed(int(torch.randint(2**62, ())) + self._index)
        dealt = self._micro_batches(batch, num_samples)
        shape = tuple(dealt[0][0].shape)
        if shape != self._shape:
            self.engine.reset_activation_shape()
            self._shape = shape
        self._dealt, self._scale = dealt, gradient_scale * len(dealt)  # the engine divides by how many there are
        self._total = torch.zeros((), dtype=torch.float64, device=self.process.device)
        self.engine.train_batch(iter([(inputs, torch.tensor(number)) for number, (inputs, *_) in enumerate(dealt)]))
        self._dealt = []
        self._flags.check()
        return self._total

    def _micro_batches(self, batch: Batch, num_samples: int) -> list[tuple[Tensor, trees.Tree, Tensor]]:
        """Inputs, targets and which of them count; all of one size, filled up with samples that weigh nothing."""
        if not isinstance(batch.inputs, Tensor):
            raise InputError(
                f"{self.plan.owner}: what goes along a pipeline is one tensor, and the recipe's inputs are several "
                f"({trees.described(batch.inputs):.200}). Use strategy 'deepspeed' or 'fsdp'."
            )
        cut = list(pieces(batch, num_samples, self.config.accumulation))
        rows = max(-(-len(piece.inputs) // self.plan.micro_batches) for piece, _, _ in cut)
        found: list[tuple[Tensor, trees.Tree, Tensor]] = []
        for piece, counted, _ in cut:
            for numbers in torch.arange(rows * self.plan.micro_batches).split(rows):
                taken = (numbers % len(piece.inputs)).to(self.process.device)
                targets = trees.mapped(itemgetter(taken), piece.targets)
                found.append((piece.inputs[taken], targets, (numbers < counted).to(self.process.device)))
        return found

    def _micro_loss(self, outputs: Tensor, number: Tensor) -> Tensor:
        _, targets, counts = self._dealt[int(number)]
        summed = (self.losses(outputs, targets) * counts).sum()
        self._total += summed.detach()
        return summed * self._scale

    def trained(self) -> Sequence[nn.Parameter]:
        return list(self.parameters.values())

    def _update(self, loss_scale: float, measure: bool) -> Tensor | None:
        if self.average:
            self.average.update()
        norm = self.engine.get_global_grad_norm()
        return torch.as_tensor(norm, dtype=self.precision.parameters, device=self.process.device)
