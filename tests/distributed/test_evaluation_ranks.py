"""The same numbers from one rank and from several, no sample counted twice."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from drivetrain.training_scripts.data.dataset import Dataset
from drivetrain.training_scripts.distribution.layout import Layout
from drivetrain.training_scripts.evaluation import evaluate
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import load_recipe


def measure(process: Process, data: Path, batch_size: int) -> dict[str, Any]:
    torch.manual_seed(0)
    recipe = load_recipe("digits_cnn", {"channels": 4, "hidden": 16})
    model = recipe.model().eval()
    layout = Layout(process, {"replicate": process.world_size})
    result = evaluate(model, Dataset(data, recipe, process), layout, batch_size=batch_size)
    return asdict(result) | {"class_means": result.class_means}


@pytest.mark.parametrize("num_rows", [1, 2, 7, 50])
def test_ranks_agree_and_count_once(num_rows: int, forked: Any, prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(num_rows), num_shards=1)
    (alone,) = forked(1, measure, data, 4)
    assert alone["num_samples"] == num_rows
    assert sum(alone["class_samples"]) == num_rows
    assert alone["class_samples"][8:] == [0, 0]
    assert "accuracy_class_0" in alone["class_means"]
    assert "accuracy_class_9" not in alone["class_means"]  # it does not occur: no number is invented
    assert alone["sums"]["accuracy"] == sum(alone["class_sums"]["accuracy"])
    for world_size in (2, 3):
        several = forked(world_size, measure, data, 4)
        assert all(result == several[0] for result in several)
        assert several[0]["class_samples"] == alone["class_samples"]
        assert several[0]["sums"]["accuracy"] == alone["sums"]["accuracy"]
        assert several[0]["sums"]["loss"] == pytest.approx(alone["sums"]["loss"], rel=1e-14)
