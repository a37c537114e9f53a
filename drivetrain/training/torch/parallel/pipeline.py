"""Pipeline parallelism: each rank holds some layers of a chain, and micro-batches flow through all of them.

Y. Huang et al., "GPipe", NeurIPS 2019; D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
Clusters", SC 2021 (1F1B, interleaved); P. Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.recipe import Batch, HasExample
from drivetrain.training.torch import strategy
from drivetrain.training.torch.accumulation import pieces
from drivetrain.training.torch.generators import kept_generators
from drivetrain.training.torch.layers import chain_of, refuse_sparse_gradients
from drivetrain.training.torch.parallel.stage_split import Boundary, Shadow, StageModule, split_chain
from drivetrain.training.torch.precision import Precision

# By name: the schedule, and into how many stages a rank's part is cut unless it is told.
SCHEDULES: dict[str, tuple[Any, int]] = {
    "gpipe": (ScheduleGPipe, 1),
    "1f1b": (Schedule1F1B, 1),
    "interleaved": (ScheduleInterleaved1F1B, 2),
    "zero_bubble": (ScheduleInterleavedZeroBubble, 2),
}
SINGLE_STAGE = ("gpipe", "1f1b")
MICRO_BATCHES_A_STAGE = 2

Losses = Callable[[Tensor, Tensor], Tensor]


class Options(Protocol):
    """Options of strategies with stages (each spells the fields out, for the compiler reads them without torch)."""

    @property
    def schedule(self) -> str: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def virtual(self) -> int: ...
    @property
    def split(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class StagePlan:
    """How a pipeline works: `ranks` hold `virtual` stages each."""

    owner: str
    ranks: int
    virtual: int
    micro_batches: int
    schedule: str

    @property
    def num_stages(self) -> int:
        return self.ranks * self.virtual

    def stages_of(self, rank: int) -> list[int]:
        """In a loop: rank 0 has the first of every round."""
        return list(range(rank, self.num_stages, self.ranks))


def plan_of(options: Options, ranks: int, owner: str) -> StagePlan:
    """The plan that options ask for.

    Raises:
        InputError: options that no schedule can follow.
    """
    virtual = options.virtual or SCHEDULES[options.schedule][1]
    micro_batches = options.micro_batches or MICRO_BATCHES_A_STAGE * ranks
    if virtual > 1 and options.schedule in SINGLE_STAGE:
        raise InputError(
            f"{owner}: virtual={virtual} with schedule {options.schedule!r}; only 'interleaved' and 'zero_bubble' cut "
            "more."
        )
    if micro_batches < ranks:
        raise InputError(
            f"{owner}: micro_batches={micro_batches} for {ranks} stages; some would always wait. Use at least {ranks}, "
            f"better {MICRO_BATCHES_A_STAGE * ranks} or more."
        )
    if micro_batches % ranks and options.schedule not in SINGLE_STAGE:
        raise InputError(
            f"{owner}: micro_batches={micro_batches} with schedule {options.schedule!r}, which sends them in rounds of "
            f"one a rank; allowed are multiples of {ranks}."
        )
    if ranks == 1:
        return StagePlan(owner, 1, 1, micro_batches, "1f1b")  # nobody to wait for
    return StagePlan(owner, ranks, virtual, micro_batches, options.schedule)


@dataclass
class _Made:
    """A schedule for micro-batches of one shape; torch's stages have buffers of a fixed size."""

    stages: list[PipelineStage]
    schedule: Any


class Pipeline:
    """A rank's stages and the schedules that they go through.

    Args:
        plan: how it works.
        stages: this rank's stages by index.
        shadow: all stages, for the shapes of what travels.
        group: the ranks of this pipeline, in the order of their stages.
        losses: one loss a sample, weighted.
        full: samples of a piece of a full batch.
    """

    def __init__(
        self,
        plan: StagePlan,
        stages: dict[int, nn.Module],
        shadow: Shadow,
        device: torch.device,
        group: dist.ProcessGroup,
        losses: Losses,
        full: int,
    ) -> None:
        self._full = full
        self.plan, self.stages, self.shadow, self.device, self.group = plan, stages, shadow, device, group
        self.losses = losses
        self.is_first, self.is_last = 0 in stages, plan.num_stages - 1 in stages
        self._made: dict[tuple[Any, ...], _Made] = {}
        self._targets: trees.Tree = torch.empty(0)
        self._counted = 0
        self._scale: float | Tensor = 1.0
        self._total = torch.zeros(())

    def backward(self, piece: Batch, counted: int, scale: float | Tensor) -> Tensor:
        """Leave gradients of `scale` times the summed losses of the first `counted` samples; returns that sum.

        Only the last stage knows it, for the others it is 0. Micro-batches are filled up with samples of the piece that
        weigh nothing.
        """
        made, rows = self._schedule(piece.inputs, training=True)
        self._targets = trees.mapped(itemgetter(rows), piece.targets)
        self._counted, self._scale = counted, scale
        self._total = torch.zeros((), dtype=torch.float64, device=self.device)
        numbers = torch.arange(len(rows), device=self.device) if self.is_last else None
        inputs = (piece.inputs[rows],) if self.is_first else ()
        made.schedule.step(*inputs, target=numbers, return_outputs=False)
        return self._total

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor | None:
        """The outputs, on the last stage only."""
        made, rows = self._schedule(inputs, training=False)
        outputs = made.schedule.eval(*((inputs[rows],) if self.is_first else ()))
        for stage in made.stages:
            stage.clear_runtime_states()
        return outputs[: len(inputs)] if self.is_last else None

    def _weighted_loss(self, outputs: Tensor, numbers: Tensor) -> Tensor:
        losses = self.losses(outputs, trees.mapped(itemgetter(numbers), self._targets))
        summed = (losses * (numbers < self._counted)).sum()
        self._total += summed.detach()
        return summed * self._scale

    def _schedule(self, inputs: Tensor, *, training: bool) -> tuple[_Made, Tensor]:
        """A schedule with enough micro-batches for all of `inputs`, and the rows that fill them.

        In training all batches are cut into micro-batches of one size, that of a full one, whichever came first: the
        last bits of sums depend on it, and a training that goes on would have others. All ranks of a pipeline see the
        same inputs, and so come to the same answer.
        """
        if not isinstance(inputs, Tensor):
            raise InputError(
                f"{self.plan.owner}: what goes along a pipeline is one tensor, and the recipe's inputs are several "
                f"({trees.described(inputs):.200}). Use strategy 'ddp' or 'fsdp'."
            )
        micro_batches = self.plan.micro_batches
        rows = -(-max(len(inputs), self._full if training else 0) // micro_batches)
        key = (training, inputs.shape[1:], inputs.dtype, rows)
        if key not in self._made:
            self._made[key] = self._make(rows, inputs, training)
        return self._made[key], torch.arange(rows * micro_batches, device=self.device) % len(inputs)

    def _make(self, rows: int, inputs: Tensor, training: bool) -> _Made:
        with kept_generators(self.device):  # layers may draw from any
            boundaries = self.shadow.boundaries(inputs, rows, training=training)
        stages = [self._stage(index, boundaries) for index in self.stages]
        kind = SCHEDULES[self.plan.schedule][0]
        single = self.plan.schedule in SINGLE_STAGE
        if single and not training:
            kind = ScheduleGPipe
        loss = self._weighted_loss if training else None
        held: Any = stages[0] if single else stages
        schedule = kind(held, self.plan.micro_batches, loss_fn=loss, scale_grads=False)
        return _Made(stages, schedule)

    def _stage(self, index: int, boundaries: Sequence[Boundary]) -> PipelineStage:
        # Given both shapes, torch's stages need not tell each other, which they would do with pickles.
        return PipelineStage(
            self.stages[index],
            index,
            self.plan.num_stages,
            self.device,
            input_args=boundaries[index].empty(),
            output_args=boundaries[index + 1].empty(),
            group=self.group,
        )


class PipelineStrategy(strategy.Strategy):
    """The common part of strategies with stages, which override `shape_stage`, and `exchange` where others hold the
    same stage."""

    def check(self) -> None:
        self.plan = plan_of(self.options, self.layout.degrees["stage"], f"strategy {self.name!r}")
        if self.config.compile and self.plan.schedule == "zero_bubble":
            raise InputError(
                f"strategy {self.name!r}: compile=True with schedule 'zero_bubble'; compiled layers cannot split their "
                "backward pass. Use schedule '1f1b' or 'interleaved', or leave compile off."
            )

    def distribute(self, model: nn.Module) -> nn.Module:
        plan, layout = self.plan, self.layout
        assert layout.mesh is not None
        chain = chain_of(model, self.name)
        if layout.data_size > 1:
            refuse_sparse_gradients(model, f"strategy {self.name!r}")
        sample = None
        if isinstance(self.recipe, HasExample):
            sample = self.recipe.example(2).to(self.process.device, self.precision.parameters).inputs
        cut = split_chain(
            chain,
            plan.num_stages,
            self.options.split,
            sample,
            plan.owner,
            self.may_start([name for name, _ in chain]),
        )
        modules = [StageModule(layers, self.process.device.type, self.stage_precision) for layers in cut]
        shadow = Shadow(modules, plan.owner)
        mine = plan.stages_of(layout.coordinates["stage"])
        self.model = nn.Sequential(OrderedDict(layer for index in mine for layer in cut[index]))
        stages = {index: self.shape_stage(modules[index]) for index in mine}
        group = layout.mesh["stage"].get_group()
        replica = -(-self.config.global_batch // layout.data_size)
        full = -(-replica // self.config.accumulation)
        self.pipeline = Pipeline(plan, stages, shadow, self.process.device, group, self.losses, full)
        return self.model

    def may_start(self, layers: Sequence[str]) -> list[bool]:
        """For each layer whether a stage may begin with it."""
        return [True] * len(layers)

    @property
    def stage_precision(self) -> Precision:
        """The format that stages compute in by themselves."""
        return self.precision

    def shape_stage(self, stage: StageModule) -> nn.Module:
        """Make a stage of this rank what the strategy wants."""
        self.shape_layers(stage)
        return stage

    def exchange(self) -> None:
        """After the last backward pass of a step: bring the gradients of ranks with the same stage together."""

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> Tensor:
        if stage := self.layout.coordinates["stage"]:
            # The ranks of a replica are seeded alike; layers of different stages must not drop the same features.
            torch.manual_seed(int(torch.randint(2**62, ())) + stage)
        total = torch.zeros((), dtype=torch.float64, device=self.process.device)
        for piece, counted, _ in pieces(batch, num_samples, self.config.accumulation):
            total += self.pipeline.backward(piece, counted, gradient_scale)
        self.exchange()
        return total

    def forward(self, inputs: Tensor) -> Tensor | None:
        outputs = self.pipeline.forward(inputs)
        return outputs if self.layout.counts else None
