"""Tensor parallel inside a host, fully sharded data parallel across: two dimensions of slices.

First each large matrix is split over the ranks of a tensor group, then what each has is cut into slices over the ranks
that do the same for other samples (torch's 2D parallelism: parallelize_module, then fully_shard).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from drivetrain.training_scripts.strategies import fsdp, tp

FRAMEWORK = "torch"
DIMENSIONS = ("shard", "tensor")
MIN_TORCH = "2.13"
SUMMARY = "large matrices split inside a host, slices of what each rank has across hosts"


@dataclass(frozen=True, kw_only=True)
class Options(fsdp.Options):
    """Options of tensor parallelism (with the recipe's tensor_plan()) and of torch's fully_shard."""

    shard: int = 0
    """Into how many slices each part is cut; 0 for what is left over."""
    tensor: int = 2
    """How many ranks share each matrix, within a host."""
    sequence: bool = False
    """Split what lies between the split layers along the sequence: less memory for activations."""


class Strategy(tp.Strategy, fsdp.Strategy):
    """See drivetrain.training_scripts.strategies.tp and drivetrain.training_scripts.strategies.fsdp."""

    options: Options

    def distribute(self, model: nn.Module) -> nn.Module:
        assert self.layout.mesh is not None
        self.split(model)
        self.shape_layers(model)
        self.shard(model, self.layout.mesh["shard"])
        return model
