"""Context parallel: ranks share the samples and split the sequence, for sequences too long for one of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drivetrain.training_scripts import strategy
from drivetrain.training_scripts.distribution import reduction
from drivetrain.training_scripts.distribution.context_parallel import Context
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.recipe import Batch

DIMENSIONS = ("replicate", "context")
MIN_TORCH = "2.13"
SUMMARY = "every process holds the model and works on its part of each sequence"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of context parallelism; the recipe's context_plan() says that its model can be split so."""

    replicate: int = 1
    """How many groups of ranks work on different samples."""
    context: int = 0
    """How many ranks share each sequence; 0 for what is left over."""


class Strategy(strategy.Strategy):
    """See drivetrain.training_scripts.distribution.context_parallel."""

    def check(self) -> None:
        if self.common.compile:
            raise InputError(
                f"strategy {self.name!r}: compile=True; attention is replaced while the layers run, which compiled "
                "layers do not see. Leave it off."
            )

    def distribute(self, model: nn.Module) -> nn.Module:
        assert self.layout.mesh is not None
        self.context = Context(model, self.recipe, self.layout.mesh["context"].get_group(), f"strategy {self.name!r}")
        return self.shape_layers(model)

    def call(self, module: nn.Module, inputs: Tensor) -> Tensor:
        outputs = super().call(module, self.context.part(inputs))
        return self.context.whole(outputs, inputs.shape[1])

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float) -> torch.Tensor:
        total = super().backward(batch, num_samples=num_samples, gradient_scale=gradient_scale)
        # Each rank has the gradients of its own positions: the sum over them, the mean over the replicas.
        if self.process.world_size > 1:
            reduction.reduce_gradients(list(self.parameters.values()), None, parts=self.layout.data_size)
        return total
