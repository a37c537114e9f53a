"""Tensor parallel: all ranks work on the same samples, and each has a part of every large matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drivetrain.training.torch import strategy
from drivetrain.training.torch.optimizers import each_of
from drivetrain.training.torch.parallel.tensor_parallel import (
    parallelize,
    refuse_part,
    refuse_uneven_length,
    step_by_kind,
)
from drivetrain.training.torch.parallel.tensor_plan import plan_for

FRAMEWORK = "torch"
DIMENSIONS = ("tensor",)
MIN_TORCH = "2.13"
SUMMARY = "each process holds a part of every large matrix, all work on the same samples"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of tensor parallelism; the recipe's tensor_plan() says what is split."""

    tensor: int = 0
    """How many ranks share each matrix, within a host; 0 for all."""
    sequence: bool = False
    """Split what lies between the split layers along the sequence: less memory for activations."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.parallel.tensor_parallel."""

    def distribute(self, model: nn.Module) -> nn.Module:
        self.split(model)
        return self.shape_layers(model)

    def split(self, model: nn.Module) -> None:
        """Split the layers that the plan names, in place."""
        mesh, sequence = self.layout.mesh, self.options.sequence
        assert mesh is not None
        plan = plan_for(self.recipe, model, self.layout.degrees["tensor"], self.owner, sequence=sequence)
        parallelize(model, plan, mesh["tensor"], sequence=sequence)

    def build_optimizer(self) -> torch.optim.Optimizer:
        optimizer = super().build_optimizer()
        for each in each_of(optimizer):
            step_by_kind(each)
        return optimizer

    def call(self, module: nn.Module, inputs: Tensor) -> Tensor:
        if self.options.sequence:
            refuse_uneven_length(inputs, self.layout.degrees["tensor"], self.owner)
        outputs = super().call(module, inputs)
        if self.options.sequence:
            refuse_part(outputs, inputs, self.owner)
        return outputs

    @property
    def owner(self) -> str:
        return f"strategy {self.name!r}"
