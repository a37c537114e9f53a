"""Distributed data parallel: each process holds the whole model and works on its part of the global batch.

Gradients are averaged while the backward pass still runs (S. Li et al., "PyTorch Distributed", VLDB 2020).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Batch, Recipe
from drivetrain.training_scripts.strategy import weighted_step


class Strategy:
    """See drivetrain.training_scripts.strategy.Strategy. With one process it is the same as `single`."""

    def __init__(
        self, recipe: Recipe, model: nn.Module, process: Process, *, learning_rate: float, weight_decay: float
    ) -> None:
        self.recipe = recipe
        self.world_size = process.world_size
        self.model = model.to(process.device)
        self.distributed: nn.Module = self.model
        if self.world_size > 1:
            # Also copies rank 0's parameters to the others, whatever they drew.
            self.distributed = DistributedDataParallel(
                self.model,
                device_ids=[process.device.index] if process.device.type == "cuda" else None,
                gradient_as_bucket_view=True,  # gradients live in the buckets that travel: no second copy of them
            )
        self.optimizer = recipe.optimizer(self.model, learning_rate=learning_rate, weight_decay=weight_decay)

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int) -> Tensor:
        return weighted_step(
            self.recipe,
            self.distributed,
            self.optimizer,
            batch,
            num_samples=num_samples,
            # DDP divides the sum over ranks by their number: multiply by it here.
            gradient_scale=self.world_size / num_global_samples,
        )
