"""Buffers that a forward pass replaces, and what the extra pass of ddp leaves of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from drivetrain.training.process import Process
from drivetrain.training.strategy import load_strategy
from tests.distributed import strategy_models
from tests.fixtures.told import told


class Moving(nn.Module):
    """Takes a moving average off, keeps the last inputs and a cache whose length differs per rank, counts its calls."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(strategy_models.SIDE))
        self.register_buffer("last", torch.zeros(4, 1, strategy_models.SIDE, strategy_models.SIDE))
        self.register_buffer("cache", torch.zeros(1))
        self.length, self.calls = length, 0

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.5 * self.mean + 0.5 * x.mean(dim=(0, 1, 2))
        self.last = x
        self.cache = torch.arange(self.length)
        self.calls += 1
        return x - self.mean


def two_steps(process: Process) -> tuple[int, Tensor, Tensor, bool, int]:
    recipe = strategy_models.Recipe(kind="conv")
    kind, options = load_strategy("ddp", {})
    moving = Moving(length=5 + process.rank)
    model = nn.Sequential(moving, strategy_models.convolutional())
    strategy = kind(recipe, model, process, told(learning_rate=1e-2), options)
    batches = [strategy.on_device(recipe.samples(4, seed=2 * step + process.rank)) for step in range(2)]
    before = [batch.inputs.clone() for batch in batches]
    for batch in batches:
        strategy.train_step(batch, num_samples=4, num_global_samples=8)
    strategy.settle()
    is_untouched = all(torch.equal(one, batch.inputs) for one, batch in zip(before, batches, strict=True))
    return moving.calls, moving.mean, moving.last, is_untouched, len(moving.cache)


def expected(recipe: strategy_models.Recipe) -> tuple[Tensor, Tensor]:
    first, second = (recipe.samples(4, seed=seed).inputs.float() for seed in (0, 2))
    mean = 0.5 * (0.5 * first.mean(dim=(0, 1, 2))) + 0.5 * second.mean(dim=(0, 1, 2))
    return mean, second


def test_a_buffer_that_is_replaced_is_the_first_ranks_everywhere(pooled: Any) -> None:
    mean, last = expected(strategy_models.Recipe(kind="conv"))
    for rank, (calls, its_mean, its_last, is_untouched, length) in enumerate(pooled(2, two_steps)):
        assert calls == 2 and is_untouched and length == 5 + rank
        assert torch.allclose(its_mean, mean) and torch.equal(its_last, last)
