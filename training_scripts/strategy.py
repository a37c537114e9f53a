"""The contract of a strategy: how a model becomes a distributed one, and how it takes a step.

A file `strategies/<name>.py` has a class `Strategy`. It owns model and optimizer, because some strategies must cut the
model before the optimizer sees its parameters, and some must own the step (pipeline stages, engines). What it
promises: a step changes the parameters as one process would with the whole global batch.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from drivetrain.training_scripts import plugins
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Batch, Recipe


class Strategy(Protocol):
    """What a strategy provides. Constructing it moves the model to the process's device."""

    def __init__(
        self, recipe: Recipe, model: nn.Module, process: Process, *, learning_rate: float, weight_decay: float
    ) -> None: ...

    @property
    def model(self) -> nn.Module:
        """The bare model: what is evaluated and saved, with the names of its parameters as the recipe made them."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer: ...

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int) -> Tensor:
        """One optimizer step.

        Args:
            batch: this rank's part of the global batch.
            num_samples: how many of its samples count; 0 where the rank has none and `batch` is a stand-in that only
                keeps it in step with the others.
            num_global_samples: samples of the global batch, over all ranks.

        Returns:
            The sum of this rank's losses, detached, shape [].
        """
        ...


def load_strategy(name: str) -> type[Strategy]:
    """The strategy `name`.

    Raises:
        InputError: no such strategy, with the closest match.
    """
    return plugins.load("strategies", name, kind="strategy").Strategy


def weighted_step(
    recipe: Recipe,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    *,
    num_samples: int,
    gradient_scale: float,
) -> Tensor:
    """Forward, backward, update, with gradients of `gradient_scale` times the *sum* of the losses.

    Sums and one common scale, instead of each rank's mean, are what makes uneven parts exact: ranks with fewer samples
    weigh less, a rank without samples takes part with weight zero.
    """
    optimizer.zero_grad()
    losses = recipe.losses(model(batch.inputs), batch.targets)
    total = losses.sum() if num_samples else losses.sum() * 0.0
    (total * gradient_scale).backward()
    optimizer.step()
    return total.detach()
