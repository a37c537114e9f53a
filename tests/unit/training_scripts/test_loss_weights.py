"""A training reports the losses that it minimizes: weighted where the recipe weighs its samples."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
OWN = """
from dataclasses import dataclass
from drivetrain.training_scripts.recipes import digits_cnn
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    channels: int = 2
    hidden: int = 4
    label_smoothing: float = 0.0
    {}
"""


def test_weighted_losses_are_measured_like_plain_ones(
    prepared_data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing changes, the loss of an epoch is that of the validation on the same rows."""
    monkeypatch.syspath_prepend(tmp_path)
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(20))
    losses = []
    for recipe, method in (("plain", ""), ("weighing", "def loss_weights(self, targets): return targets ** 2")):
        (tmp_path / f"{recipe}.py").write_text(OWN.format(method))
        folders = Folders(train=data, validation=data, model=tmp_path / recipe, output=tmp_path / recipe)
        train(Config(recipe=recipe, epochs=1, global_batch=8, learning_rate=1e-12), folders, ALONE)
        (found,) = json.loads((tmp_path / recipe / "history.json").read_text())
        assert found["train_loss"] == pytest.approx(found["validation_loss"], rel=1e-6)
        losses.append(found["validation_loss"])
    assert abs(losses[0] - losses[1]) > 1e-3
