"""Strategies in the training loop itself: files in, a model out, equal to one process's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from drivetrain.training.process import Process
from drivetrain.training_scripts.strategies import ddp
from drivetrain.training_scripts.train import Config, Folders, train
from tests.distributed import strategy_training
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, Trained

# 50 rows in batches of 16: 16, 16, 16, 2. Three epochs are 12 steps.
CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 8, "hidden": 32}',
    global_batch=16,
    epochs=3,
    precision="fp64",
    learning_rate=3e-2,
    clip_norm=1.0,
    ema_decay=0.9,
)

Results = tuple[dict[str, torch.Tensor], list[dict[str, float]]]


def fit(process: Process, config: Config, data: Path, target: Path) -> None:
    train(config, Folders(train=data, validation=data, model=target / "model", output=target / "output"), process)


def results(target: Path) -> Results:
    history = json.loads((target / "output/history.json").read_text())
    return load_file(target / "model/model.safetensors"), history


@pytest.mark.parametrize(
    ("strategy", "world_size", "line"),
    [
        # With 3 ranks one has no sample of the batch of 2.
        ("ddp", 3, "  replicas (same parameters, different samples): [0 1 2]"),
        pytest.param(
            *("fsdp", 2, "  shards (slices of the same parameters, different samples): [0 1]"), marks=pytest.mark.slow
        ),
        pytest.param("hsdp", 4, "4 ranks: replicate 1 x shard 4", marks=pytest.mark.slow),
    ],
)
def test_a_training_equals_one_process(
    strategy: str,
    world_size: int,
    line: str,
    pooled: Any,
    digits: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pooled(1, fit, replace(CONFIG, strategy="single"), digits, tmp_path / "one")
    capfd.readouterr()
    pooled(world_size, fit, replace(CONFIG, strategy=strategy), digits, tmp_path / "many")
    (expected, expected_history), (weights, history) = results(tmp_path / "one"), results(tmp_path / "many")
    assert history[-1]["step"] == 12
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensor.dtype == torch.float64
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=1e-10)
    for epoch, expected_epoch in zip(history, expected_history, strict=True):
        assert epoch == pytest.approx(expected_epoch, rel=0, abs=1e-10)
    # And it learnt: otherwise equality would be cheap.
    assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]
    printed = capfd.readouterr().out.splitlines()
    assert line in printed
    assert any(text.startswith("epoch 3/3 step 12 train_loss=") for text in printed)


def fit_from_ones_own_start(process: Process, run: Run, setting: Setting) -> Trained:
    return strategy_training.fit(process, run, replace(setting, seed=process.rank))


@pytest.mark.slow_cases("fsdp")
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_all_ranks_start_from_equal_weights(strategy: str, pooled: Any) -> None:
    """A recipe may draw from a generator that nobody seeded."""
    setting = Setting(kind="conv", steps=3)
    (same,) = pooled(1, strategy_training.fit, Run(strategy, 1), setting)
    drawn = pooled(2, fit_from_ones_own_start, Run(strategy, 2), setting)[0]
    assert strategy_training.difference(drawn, same) < 1e-10


def unweighted(process: Process, data: Path, target: Path) -> None:
    """The usual mistake: each rank's mean, whatever its number of samples."""

    def mean_of_means(self: Any, batch: Any, *, num_samples: int, num_global_samples: int, **rest: Any) -> Any:
        own = max(num_samples, 1)
        return right(self, batch, num_samples=num_samples, num_global_samples=own * self.layout.data_size, **rest)

    right = ddp.Strategy.train_step
    ddp.Strategy.train_step = mean_of_means  # in the forked rank only
    fit(process, replace(CONFIG, global_batch=15, clip_norm=0.0), data, target)


def test_a_mean_of_means_is_noticed(forked: Any, digits: Path, tmp_path: Path) -> None:
    """What the comparison above would say of a wrong weight: batches of 15 are dealt 7 and 8."""
    one = replace(CONFIG, global_batch=15, clip_norm=0.0, strategy="single")
    forked(1, fit, one, digits, tmp_path / "one")
    forked(2, unweighted, digits, tmp_path / "wrong")
    expected, wrong = results(tmp_path / "one")[0], results(tmp_path / "wrong")[0]
    assert max(float((wrong[name] - tensor).abs().max()) for name, tensor in expected.items()) > 1e-6
