"""Hybrid sharded data parallel: slices within a group of processes, copies between the groups.

What is fetched for every layer stays within a host; only gradients travel between hosts (Y. Zhao et al., "PyTorch FSDP:
Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023, section 3.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training_scripts.strategies import fsdp

FRAMEWORK = "torch"
DIMENSIONS = ("replicate", "shard")
MIN_TORCH = "2.6"
SUMMARY = "slices within a host, copies between hosts"


@dataclass(frozen=True, kw_only=True)
class Options(fsdp.Options):
    """Those of fsdp, and the two degrees."""

    replicate: int = 0
    """How many copies of the model there are; 0: as many as the processes make."""
    shard: int = 0
    """Into how many slices each copy is cut; 0: the processes of a host."""


class Strategy(fsdp.Strategy):
    """See drivetrain.training.torch.strategy.Strategy."""

    options: Options
