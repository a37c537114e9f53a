"""Pipeline parallel times data parallel: several equal pipelines work on different samples.

Gradients are averaged after the schedule and not while it runs: a backward pass that comes in micro-batches, or in
halves (zero_bubble), does not tell DistributedDataParallel when a gradient is complete.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.torch import reduction
from drivetrain.training.torch.parallel.pipeline import PipelineStrategy
from drivetrain.training_scripts.strategies import pp

FRAMEWORK = "torch"
DIMENSIONS = ("stage", "replicate")
MIN_TORCH = "2.13"
SUMMARY = "pipelines side by side: layers dealt to the stages, samples to the pipelines, gradients averaged"


@dataclass(frozen=True, kw_only=True)
class Options(pp.Options):
    """Options of the pipeline. The recipe's model has to be an nn.Sequential; it is cut between its children."""

    stage: int = 2
    """How many ranks share the layers."""
    replicate: int = 0
    """How many pipelines there are; 0 for what is left over."""


class Strategy(PipelineStrategy):
    """See drivetrain.training.torch.parallel.pipeline."""

    def exchange(self) -> None:
        if self.layout.data_size > 1:
            reduction.reduce_gradients(
                list(self.parameters.values()), self.layout.stage_group(), parts=self.layout.data_size
            )
