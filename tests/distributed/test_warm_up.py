"""What comes before the first step of a start leaves every generator of random numbers as it was: a training that is
resumed draws what one draws that was never interrupted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from tests.distributed import strategy_models
from tests.fixtures.told import told

Drawn = tuple[float, float, float]


class Drawing(nn.Module):
    """A layer that draws from each of them."""

    def __init__(self, drawn: list[Drawn]) -> None:
        super().__init__()
        self.drawn = drawn

    def forward(self, inputs: Tensor) -> Tensor:
        self.drawn.append((random.random(), np.random.random(), torch.rand(1).item()))
        return inputs


def first_step(process: Process) -> list[Drawn]:
    recipe = strategy_models.Recipe()
    samples = recipe.samples(8, seed=process.rank)
    drawn: list[Drawn] = []
    found, options = load_strategy("ddp", {})
    model = nn.Sequential(Drawing(drawn), *recipe.model())
    strategy = found(recipe, model, process, told(learning_rate=1e-2), options)
    strategy.model.train()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    batch = Batch(samples.inputs, samples.targets).to(process.device, torch.float32)
    strategy.train_step(batch, num_samples=8, num_global_samples=16)
    return drawn


def test_the_warm_up_draws_what_the_first_step_draws_again(pooled: Any) -> None:
    for drawn in pooled(2, first_step):
        warm_up, step = drawn
        assert warm_up == step
