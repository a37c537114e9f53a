"""The health rules are silent on the shipped recipes, as their configs tell, when nothing is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training import plugins
from drivetrain.training.config import Folders
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_data
from tests.fixtures.shipped_recipes import ROWS, STEPS, config_of

# (huggingface fine-tunes a model that it is given: test_huggingface.py.)
NAMES = [name for name in plugins.of_framework("recipes", "torch") if name != "huggingface"]
SEEDS = 20
# Which the quick suite trains, with two seeds; the others take seconds a training.
QUICK = {"digits_cnn"}


def fit(process: Process, name: str, seeds: list[int], folder: Path) -> list[dict[str, Any]]:
    """What rules found in a training with each seed."""
    found = []
    for seed in seeds:
        reader = getattr(load_recipe(name, {}), "reader", "prepared")
        place = folder / str(seed)
        data = tiny_data.write(reader, place / "data", rows=ROWS, seed=seed)
        train(
            config_of(name, seed),
            Folders(train=data, validation=data, model=place / "model", output=place / "output"),
            process,
        )
        found.append(json.loads((place / "output/health/health.json").read_text()))
    return found


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in NAMES])
def test_no_rule_fires(name: str, pooled: Any, tmp_path: Path) -> None:
    for one in pooled(1, fit, name, [0, 1], tmp_path, timeout=120)[0]:
        assert one["findings"] == []
        assert one["records"]["tensors"] == STEPS


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_no_rule_fires_with_any_of_twenty_seeds(name: str, pooled: Any, tmp_path: Path) -> None:
    found = pooled(1, fit, name, list(range(SEEDS)), tmp_path, timeout=1200)[0]
    assert [one["findings"] for one in found] == [[]] * SEEDS
