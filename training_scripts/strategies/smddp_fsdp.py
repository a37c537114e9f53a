"""As fsdp, over SageMaker's data parallel library (SMDDP); its AllGather is made for the network of p4d and p4de.

See smddp.py, and https://docs.aws.amazon.com/sagemaker/latest/dg/data-parallel-modify-sdp-pt.html.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training_scripts.strategies import fsdp

FRAMEWORK = "torch"
DIMENSIONS = ("shard",)
MIN_TORCH = "2.5"
LIBRARY = "smddp"
INSTEAD = "fsdp"
BACKEND = "smddp"
SUMMARY = "as fsdp, over SageMaker's data parallel library"


@dataclass(frozen=True, kw_only=True)
class Options(fsdp.Options):
    """Those of fsdp."""


class Strategy(fsdp.Strategy):
    """See drivetrain.training_scripts.strategies.fsdp. What is particular happens where the processes join
    (drivetrain.training.torch.joining)."""
