"""Distributed data parallel: each process holds the whole model and works on its part of the global batch.

Gradients are averaged while the backward pass still runs (S. Li et al., "PyTorch Distributed", VLDB 2020).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from drivetrain.training_scripts import strategy

DIMENSIONS = ("replicate",)
MIN_TORCH = "2.6"
SUMMARY = "every process holds the model, gradients are averaged"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of torch's DistributedDataParallel."""


class Strategy(strategy.Strategy):
    """See drivetrain.training_scripts.strategy.Strategy. With one process it is the same as `single`."""

    needs_mesh = False

    def distribute(self, model: nn.Module) -> nn.Module:
        self.shape_layers(model)
        if self.process.world_size == 1:
            return model
        # Also copies rank 0's parameters to the others, whatever they drew.
        return DistributedDataParallel(
            model,
            device_ids=[self.process.device.index] if self.process.device.type == "cuda" else None,
            gradient_as_bucket_view=True,  # gradients live in the buckets that travel: no second copy of them
        )

    def synchronizing(self, last: bool) -> AbstractContextManager[None]:
        if isinstance(self.module, DistributedDataParallel) and not last:
            return self.module.no_sync()
        return nullcontext()
