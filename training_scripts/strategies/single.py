"""One process with the whole model and the whole batch: the reference that every other strategy must equal."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.base.errors import InputError
from drivetrain.training.torch import strategy

FRAMEWORK = "torch"
DIMENSIONS = ()
MIN_TORCH = "2.6"
SUMMARY = "one process with the whole model and the whole batch"


@dataclass(frozen=True, kw_only=True)
class Options:
    """None."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.strategy.Strategy."""

    def check(self) -> None:
        if self.process.world_size != 1:
            raise InputError(
                f"strategy 'single' is for one process, but {self.process.world_size} were started; each would train "
                "a model of its own. Use strategy 'ddp', or one host with processes 1."
            )
