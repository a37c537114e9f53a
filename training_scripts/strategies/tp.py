"""Tensor parallel: all ranks work on the same samples, and each has a part of every large matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drivetrain.training_scripts import strategy
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.tensor_parallel import parallelize, plan_for, step_one_by_one

DIMENSIONS = ("tensor",)
MIN_TORCH = "2.13"
SUMMARY = "each process holds a part of every large matrix, all work on the same samples"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of tensor parallelism; what is split says the recipe's tensor_plan()."""

    tensor: int = 0
    """How many ranks share each matrix, within a host; 0 for all."""
    sequence: bool = False
    """Split what lies between the split layers along the sequence: less memory for activations."""


class Strategy(strategy.Strategy):
    """See drivetrain.training_scripts.tensor_parallel."""

    options: Options

    def distribute(self, model: nn.Module) -> nn.Module:
        assert self.layout.mesh is not None
        plan = plan_for(self.recipe, model, self.tensor_size, self.owner, sequence=self.options.sequence)
        parallelize(model, plan, self.layout.mesh["tensor"], sequence=self.options.sequence)
        return self.shape_layers(model)

    def build_optimizer(self) -> torch.optim.Optimizer:
        optimizer = super().build_optimizer()
        step_one_by_one(optimizer, self.owner)
        return optimizer

    def call(self, module: nn.Module, inputs: Tensor) -> Tensor:
        if self.options.sequence and (inputs.dim() < 2 or inputs.shape[1] % self.tensor_size):
            raise InputError(
                f"{self.owner}: sequence=True with inputs of shape {list(inputs.shape)}; {self.tensor_size} ranks "
                "cannot share the positions (the second size) evenly. Choose a length that they divide."
            )
        return super().call(module, inputs)

    @property
    def tensor_size(self) -> int:
        return self.layout.degrees["tensor"]

    @property
    def owner(self) -> str:
        return f"strategy {self.name!r}"
