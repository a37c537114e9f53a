"""A layer with sparse gradients is trained as one with dense ones, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.strategies import deepspeed, fsdp
from tests.distributed.strategy_models import Recipe
from tests.distributed.test_loop import CONFIG, fit, records
from tests.fixtures.told import told

RECIPE = """
from dataclasses import dataclass
import torch
from torch import nn
from drivetrain.training_scripts.recipes import digits_cnn
class Model(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.levels = nn.Embedding(17 * 64, 10, sparse=sparse)
    def forward(self, x):
        levels = (x.flatten(1) * 16).round().long().clamp(0, 16)
        return self.levels(levels + 17 * torch.arange(64)).mean(dim=1)
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    sparse: bool = True
    def model(self):
        return Model(self.sparse)
    def optimizer(self, model, *, learning_rate, weight_decay):
        return torch.optim.SGD(model.parameters(), lr=learning_rate)
"""


@pytest.mark.slow_cases("ddp")
@pytest.mark.parametrize("strategy", ["single", "ddp"])
def test_sparse_gradients_train_as_dense_ones(
    strategy: str, pooled: Any, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_sparse.py").write_text(RECIPE)
    monkeypatch.syspath_prepend(tmp_path)
    config = replace(
        CONFIG, recipe="with_sparse", strategy=strategy, clip_norm=0.1, learning_rate=0.5, max_steps=4, epochs=1
    )
    found: list[list[float]] = []
    for sparse in ("true", "false"):
        options = f'{{"sparse": {sparse}}}'
        ranks = 1 if strategy == "single" else 2
        pooled(ranks, fit, replace(config, recipe_options=options), digits, tmp_path / sparse)
        steps = records(tmp_path / sparse)
        assert len(steps) == 4
        found.append([record[name] for record in steps for name in ("train_loss", "gradient_norm")])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


class _Scaled(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 3)
        self.factor = nn.Parameter(torch.tensor(1.0))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (_Scaled(), r"parameter '0\.factor' is a single number without a dimension.*shape \[1\]"),
        (nn.Embedding(5, 2, sparse=True), r"layer '0' has sparse gradients.*sparse=False"),
        (nn.EmbeddingBag(5, 2, sparse=True), r"layer '0' has sparse gradients"),
    ],
)
def test_parameters_that_fully_shard_cannot_split_are_refused(layer: nn.Module, message: str) -> None:
    absent: Any = None  # nothing is placed before
    with pytest.raises(InputError, match=message):
        fsdp.shard_layers(nn.Sequential(layer), absent, fsdp.Options(), absent)
    with pytest.raises(InputError, match=message):
        deepspeed.refuse_what_zero_cannot(nn.Sequential(layer))


def test_an_optimizer_that_takes_no_sparse_gradients_is_refused(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_adamw.py").write_text(RECIPE.replace("torch.optim.SGD(", "torch.optim.AdamW("))
    monkeypatch.syspath_prepend(tmp_path)
    config = replace(CONFIG, recipe="with_adamw", recipe_options="{}", strategy="single", max_steps=1, epochs=1)
    message = r"AdamW of the recipe cannot step on sparse gradients \(.*\)\. Make the embedding with sparse=False; or"
    with pytest.raises(InputError, match=message):
        fit(Process(0, 1, 0, 1, torch.device("cpu")), config, digits, tmp_path)


@pytest.mark.parametrize(("strategy", "options"), [("pp_ddp", {"stage": 1}), ("cp", {})])
def test_sparse_gradients_that_would_travel_in_one_message_are_refused(
    strategy: str, options: dict[str, Any], forked: Any
) -> None:
    with pytest.raises(AssertionError, match=rf"layer '0' has sparse gradients, which strategy '{strategy}' does not"):
        forked(2, build_sparse, strategy, options)


def build_sparse(process: Process, strategy: str, options: dict[str, Any]) -> None:
    kind, given = load_strategy(strategy, options)
    kind(Recipe(), nn.Sequential(nn.Embedding(5, 2, sparse=True)), process, told(), given)
