"""Tensor parallel inside a host, fully sharded data parallel across: two dimensions of slices.

First each large matrix is split over the ranks of a tensor group, then what each has is cut into slices over the ranks
that do the same for other samples (torch's 2D parallelism: parallelize_module, then fully_shard).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drivetrain.training_scripts.distribution.tensor_parallel import (
    parallelize,
    refuse_part,
    refuse_uneven_length,
    step_by_kind,
)
from drivetrain.training_scripts.distribution.tensor_plan import plan_for
from drivetrain.training_scripts.strategies import fsdp

DIMENSIONS = ("shard", "tensor")
MIN_TORCH = "2.13"
SUMMARY = "large matrices split inside a host, slices of what each rank has across hosts"


@dataclass(frozen=True, kw_only=True)
class Options(fsdp.Options):
    """Of tensor parallelism, whose plan is the recipe's tensor_plan(), and of torch's fully_shard."""

    shard: int = 0
    """Into how many slices each part is cut; 0 for what is left over."""
    tensor: int = 2
    """How many ranks share each matrix, within a host."""
    sequence: bool = False
    """Split what lies between the split layers along the sequence: less memory for activations."""
    reshard_after_forward: bool = True
    """Throw a layer's parameters away between its forward and its backward pass, and fetch them again."""
    prefetch: int = 0
    """How many layers are fetched ahead of the one that computes; 0 leaves it to torch."""
    cpu_offload: bool = False
    """Keep slices and optimizer in the host's memory, and take the steps there."""


class Strategy(fsdp.Strategy):
    """See drivetrain.training_scripts.distribution.tensor_parallel and drivetrain.training_scripts.strategies.fsdp."""

    options: Options

    def distribute(self, model: nn.Module) -> nn.Module:
        mesh, sequence = self.layout.mesh, self.options.sequence
        assert mesh is not None
        plan = plan_for(self.recipe, model, self.layout.degrees["tensor"], self.owner, sequence=sequence)
        parallelize(model, plan, mesh["tensor"], sequence=sequence)
        self.shape_layers(model)
        self.sharded = fsdp.shard_layers(model, mesh["shard"], self.options, self.precision)
        return model

    def build_optimizer(self) -> torch.optim.Optimizer:
        optimizer = super().build_optimizer()
        step_by_kind(optimizer)
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
