"""Pipeline parallel: the layers are dealt to the ranks, and micro-batches flow from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.torch.parallel.pipeline import PipelineStrategy

FRAMEWORK = "torch"
DIMENSIONS = ("stage",)
MIN_TORCH = "2.13"
SUMMARY = "each process holds some of the layers, micro-batches flow through all of them"
CHOICES = {"schedule": ("gpipe", "1f1b", "interleaved", "zero_bubble")}
BOUNDS = {"micro_batches": (0, None), "virtual": (0, None)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the pipeline. The recipe's model has to be an nn.Sequential; it is cut between its children."""

    stage: int = 0
    """How many ranks share the layers; 0 for all."""
    schedule: str = "1f1b"
    """gpipe, 1f1b, interleaved or zero_bubble."""
    micro_batches: int = 0
    """Into how many parts each piece of a batch is cut; 0 for two a stage."""
    virtual: int = 0
    """Stages of a rank, with the schedules interleaved and zero_bubble; 0 for 2."""
    split: tuple[str, ...] = ()
    """The first layer of each stage but the first, by name; empty for stages of balanced cost."""


class Strategy(PipelineStrategy):
    """See drivetrain.training.torch.parallel.pipeline."""
