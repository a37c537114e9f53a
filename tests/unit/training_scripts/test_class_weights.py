"""class_weights=balanced: each class counts alike in what is learnt, and measurements stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.utils.class_weight import compute_class_weight

from drivetrain.base.errors import InputError
from drivetrain.training.class_weights import balanced
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
OWN = """
import torch
from dataclasses import dataclass
from drivetrain.training_scripts.recipes import digits_cnn
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    channels: int = 2
    hidden: int = 4
    {}
"""
BY_HAND = "def loss_weights(self, targets): return torch.tensor({}, dtype=torch.float64)[targets]"


def test_weights_are_those_of_scikit_learn_and_nothing_for_a_class_without_rows() -> None:
    labels = np.random.default_rng(1).choice(4, 500, p=[0.7, 0.2, 0.09, 0.01])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    assert balanced(np.bincount(labels, minlength=6)).tolist() == [*expected.tolist(), 0.0, 0.0]


@pytest.fixture
def data(prepared_data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    columns = prepared_data.digit_columns(48)
    keep = np.flatnonzero((columns["label"] < 2) | (np.arange(48) % 3 == 0))
    columns = {name: np.asarray(values)[keep] for name, values in columns.items()}
    return prepared_data.write_prepared(tmp_path / "data", columns)


def fit(tmp_path: Path, data: Path, name: str, method: str = "", **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (tmp_path / f"{name}.py").write_text(OWN.format(method))
    out = tmp_path / "runs" / name
    folders = Folders(train=data, validation=data, model=out, output=out)
    config = {"epochs": 1, "global_batch": 8, "strategy": "single", "precision": "fp64", **given}
    train(Config(recipe=name, **config), folders, ALONE)
    return load_file(out / "model.safetensors"), json.loads((out / "history.json").read_text())[-1]


def test_the_model_is_that_of_a_recipe_which_weighs_by_hand(tmp_path: Path, data: Path) -> None:
    labels = np.array([label for label in range(8) for _ in range(6 if label < 2 else 2)])
    by_hand, _ = fit(tmp_path, data, "by_hand", BY_HAND.format(balanced(np.bincount(labels, minlength=10)).tolist()))
    model, measured = fit(tmp_path, data, "weighed", class_weights="balanced")
    assert all(torch.equal(tensor, by_hand[name]) for name, tensor in model.items())
    # Measured without weights: by the plain recipe, which starts from these weights and takes no step.
    (tmp_path / "plain.py").write_text(OWN.format(""))
    folders = Folders(
        train=data,
        validation=data,
        weights=tmp_path / "runs" / "weighed" / "model.safetensors",
        model=tmp_path / "again",
        output=tmp_path / "again",
    )
    train(Config(recipe="plain", strategy="single", precision="fp64", epochs=1, learning_rate=1e-30), folders, ALONE)
    (again,) = json.loads((tmp_path / "again" / "history.json").read_text())
    assert again["validation_loss"] == pytest.approx(measured["validation_loss"], rel=1e-9)
    assert measured["train_loss"] != pytest.approx(measured["validation_loss"], rel=1e-3)


def test_where_there_is_nothing_to_weigh_it_is_refused(tmp_path: Path, data: Path) -> None:
    with pytest.raises(InputError, match="the recipe weighing weighs its samples itself"):
        fit(tmp_path, data, "weighing", BY_HAND.format([1.0] * 10), class_weights="balanced")
