"""End a training whose loss is not finite, with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process


def refuse_infinite_loss(loss: float, process: Process, why: Callable[[], str] = lambda: "") -> None:
    """After the first step a loss that is not finite comes from the data or the recipe, not from divergence.

    Args:
        why: what more is known, asked on every rank where the loss of one is not finite.

    Raises:
        InputError: naming the ranks. Every rank raises it.
    """
    finite = np.zeros(process.world_size)
    finite[process.rank] = math.isfinite(loss)
    wrong = [rank for rank, is_finite in enumerate(process.sum(finite).tolist()) if not is_finite]
    if wrong:
        ranks = f"rank{'s' if len(wrong) > 1 else ''} {', '.join(str(rank) for rank in wrong)}"
        raise InputError(
            f"the loss of step 1 is not a finite number on {ranks} of {process.world_size}{_known(why())}. Look for "
            "empty or infinite values in the data, or a loss of the recipe that divides by zero or takes the logarithm "
            "of it."
        )


def refuse_divergence(metrics: Mapping[str, float], epoch: int, step: int, why: Callable[[], str] = lambda: "") -> None:
    """
    Args:
        metrics: means over all ranks: every rank has the same values, so every rank stops here.
        epoch: counted from 0.
        why: what more is known, asked on every rank.

    Raises:
        InputError: one that is not finite.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"{name} is {value} in epoch {epoch + 1} (step {step}): training diverged{_known(why())}. "
                "Lower learning_rate, or look for extreme values in the data."
            )


def _known(why: str) -> str:
    return f" ({why})" if why else ""
