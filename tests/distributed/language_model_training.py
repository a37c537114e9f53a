"""A short training of the language model under any strategy."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor

from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch import gathering as state
from drivetrain.training_scripts.recipes import decoder_lm
from tests.fixtures.told import told

LENGTH = 8
MODEL = decoder_lm.Recipe(layers=2, width=16, heads=4, hidden=24, length=LENGTH + 2, vocabulary=19, bias=True)
Result = tuple[list[float], dict[str, Any], int]


def learn(
    process: Process, name: str, options: dict[str, Any], recipe: decoder_lm.Recipe, common: dict[str, Any]
) -> Result:
    """Losses, parameters and how many of them are cut, after 6 steps with clipping and accumulation."""
    torch.manual_seed(0)
    kind, built = load_strategy(name, options)
    given = {"precision": "fp64", "clip_norm": 0.5, "accumulation": 2, "weight_decay": 1e-2} | common
    strategy = kind(recipe, recipe.model(), process, told(learning_rate=1e-2, **given), built)
    strategy.model.train()
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(recipe.vocabulary, (5, LENGTH + 1), generator=generator)
    rank, size = strategy.layout.data_rank, strategy.layout.data_size
    rows = slice(5 * rank // size, 5 * (rank + 1) // size)
    batch = Batch(tokens[rows, :-1], tokens[rows, 1:])
    losses = []
    for step in range(6):
        torch.manual_seed(step)
        taken = strategy.train_step(batch, num_samples=len(batch.inputs), num_global_samples=5)
        losses.append(float(process.sum(taken.loss)))
    cut = sum(isinstance(p, DTensor) and any(q.is_shard() for q in p.placements) for p in strategy.parameters.values())
    return losses, {n: t.detach().clone().numpy() for n, t in state.gather_model(strategy).items()}, cut


def distance(one: Result, other: Result) -> float:
    assert one[1].keys() == other[1].keys()
    losses = max(abs(a - b) for a, b in zip(one[0], other[0], strict=True))
    return max(losses, *(float(abs(values - other[1][name]).max()) for name, values in one[1].items()))
