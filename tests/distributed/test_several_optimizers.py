"""A recipe with two optimizers and two schedules: on ranks as in one process, and after a restart bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train

COMMON: dict[str, Any] = {
    "recipe": "tests.fixtures.two_optimizers",
    "recipe_options": '{"channels": 2, "hidden": 8}',
    "global_batch": 16,
    "epochs": 2,
    "clip_norm": 0.5,
    "checkpoint_every": "2steps",
    "learning_rate": 0.01,
    "schedule": "sgdr",  # which does not depend on how long the training is to be
}


def fit(process: Process, data: Path, target: Path, change: dict[str, Any]) -> None:
    folders = Folders(train=data, model=target / "model", output=target, checkpoints=target / "checkpoints")
    train(Config(**COMMON | change), folders, process)


def weights(target: Path) -> dict[str, Any]:
    return load_file(target / "model/model.safetensors")


@pytest.mark.slow_cases(but=["ddp"])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "tp", "pp"])
def test_several_optimizers_equal_one_process(strategy: str, pooled: Any, digits: Path, tmp_path: Path) -> None:
    pooled(1, fit, digits, tmp_path / "one", {"strategy": "single"})
    pooled(2, fit, digits, tmp_path / "cut", {"strategy": strategy, "max_steps": 5})
    pooled(2, fit, digits, tmp_path / "cut", {"strategy": strategy})
    pooled(2, fit, digits, tmp_path / "two", {"strategy": strategy})
    one, two, cut = (weights(tmp_path / name) for name in ("one", "two", "cut"))
    assert all((cut[name] == two[name]).all() for name in two)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 2e-5
