"""Three dimensions: layers dealt to stages, what a stage has cut into slices, large matrices split inside a host."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from drivetrain.training.torch.freezing import SharedFlags
from drivetrain.training.torch.optimizers import each_of
from drivetrain.training.torch.parallel.pipeline import PipelineStrategy
from drivetrain.training.torch.parallel.stage_split import StageModule
from drivetrain.training.torch.parallel.tensor_parallel import parallelize, step_by_kind
from drivetrain.training.torch.parallel.tensor_plan import plan_for, takes_whole
from drivetrain.training.torch.precision import Precision
from drivetrain.training_scripts.strategies import fsdp, pp

FRAMEWORK = "torch"
DIMENSIONS = ("stage", "shard", "tensor")
MIN_TORCH = "2.13"
SUMMARY = "pipeline stages, each in slices, large matrices split inside a host"


@dataclass(frozen=True, kw_only=True)
class Options(pp.Options):
    """Options of the pipeline; the recipe's tensor_plan() says what is split over the tensor ranks."""

    stage: int = 2
    """How many ranks share the layers."""
    shard: int = 0
    """Into how many slices each part is cut; 0 for what is left over."""
    tensor: int = 2
    """How many ranks share each matrix, within a host."""


class Strategy(PipelineStrategy):
    """See drivetrain.training.torch.parallel.pipeline, .tensor_parallel and .strategies.fsdp."""

    def distribute(self, model: nn.Module) -> nn.Module:
        size = self.layout.degrees["tensor"]
        self.tensor_plan = plan_for(self.recipe, model, size, self.plan.owner) if size > 1 else {}
        self.sharded: list[FSDPModule] = []
        distributed = super().distribute(model)
        self._flags = SharedFlags(self.sharded)
        return distributed

    def exchange(self) -> None:
        self._flags.carry()  # (layers stay whole until then)

    def shape_stage(self, stage: StageModule) -> nn.Module:
        mesh = self.layout.mesh
        assert mesh is not None
        parallelize(stage, self.tensor_plan, mesh["tensor"])
        self.shape_layers(stage)
        # Whole layers are kept from one micro-batch to the next: to fetch them for each would cost more than it saves.
        options = fsdp.Options(reshard_after_forward=False)
        self.sharded += fsdp.shard_layers(stage, mesh["shard"], options, self.precision)
        return stage

    def may_start(self, layers: Sequence[str]) -> list[bool]:
        return takes_whole(layers, self.tensor_plan)

    @property
    def stage_precision(self) -> Precision:
        return Precision(self.precision.parameters, self.precision.parameters)  # the sharded layers change formats

    def build_optimizer(self) -> torch.optim.Optimizer:
        optimizer = super().build_optimizer()
        for each in each_of(optimizer):
            step_by_kind(each)
        return optimizer

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        with super().in_evaluation(), fsdp.cut_afterwards(self.sharded):
            yield
