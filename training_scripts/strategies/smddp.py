"""As ddp, over SageMaker's data parallel library (SMDDP): AWS's own collectives for the network of p4d and p4de.

https://docs.aws.amazon.com/sagemaker/latest/dg/data-parallel-modify-sdp-pt.html: `torch_smddp` is imported, and "smddp"
is the backend of torch's process group; everything else is DistributedDataParallel's. The library exists only in AWS's
images; the newest has torch 2.5.1 (targets/sagemaker/libraries.json).
"""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training_scripts.strategies import ddp

FRAMEWORK = "torch"
DIMENSIONS = ("replicate",)
MIN_TORCH = "2.5"
LIBRARY = "smddp"
INSTEAD = "ddp"
BACKEND = "smddp"
SUMMARY = "as ddp, over SageMaker's data parallel library"


@dataclass(frozen=True, kw_only=True)
class Options(ddp.Options):
    """Those of ddp."""


class Strategy(ddp.Strategy):
    """See drivetrain.training_scripts.strategies.ddp. What is particular happens where the processes join
    (drivetrain.training.torch.joining)."""
