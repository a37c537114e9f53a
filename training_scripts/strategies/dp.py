"""Data parallel in one process: a thread for each GPU of the host, the model copied to all of them in every step.

torch's DataParallel. It is the slowest of the strategies, and here for scripts that know no other; ddp does the same
with a process for each GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.torch import strategy

FRAMEWORK = "torch"
DIMENSIONS = ()
MIN_TORCH = "2.6"
SUMMARY = "one process drives all GPUs of a host (ddp is faster)"


@dataclass(frozen=True, kw_only=True)
class Options:
    """None."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy. Running statistics are those of the first GPU's samples."""

    def check(self) -> None:
        process, config = self.process, self.config
        if process.world_size != 1:
            raise InputError(
                f"strategy 'dp' is one process for all GPUs of a host, but {process.world_size} processes were "
                "started. Use strategy 'ddp', which gives each process a GPU of its own."
            )
        if process.device.type != "cuda":
            raise InputError(
                "strategy 'dp' copies the model to several GPUs, and this machine has none: one process already uses "
                "all CPU cores. Use strategy 'single', or 'ddp' with several processes."
            )
        if torch.cuda.device_count() < 2:
            raise InputError("strategy 'dp' is for several GPUs, and one is visible. Use strategy 'single'.")
        for name in ("compile", "activation_checkpointing", "sync_batchnorm"):
            if getattr(config, name):
                raise InputError(
                    f"{name}=True does not work with strategy 'dp', which copies the layers in every step. Use 'ddp'."
                )

    def distribute(self, model: nn.Module) -> nn.Module:
        return nn.DataParallel(model)
