"""The same numbers from one rank and from several, no sample counted twice."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from drivetrain.training.evaluation.run import Evaluation, evaluate, probe, task_of
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.framework import Framework


def measure(process: Process, data: Path, batch_size: int) -> Evaluation:
    torch.manual_seed(0)
    recipe = load_recipe("digits_cnn", {"channels": 4, "hidden": 16})
    model, dataset, task = recipe.model().eval(), Dataset(data, recipe, process), task_of(recipe)
    values = probe(Framework(), recipe, model, dataset, task)
    layout = Layout(process, {"replicate": process.world_size})
    return evaluate(
        model,
        dataset,
        layout,
        framework=Framework(),
        precision=torch.float32,
        batch_size=batch_size,
        task=task,
        values=values,
    )


@pytest.mark.slow_cases("1", "7")
@pytest.mark.parametrize("num_rows", [1, 2, 7, 50])
def test_ranks_agree_and_count_once(num_rows: int, pooled: Any, prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(num_rows), num_shards=1)
    (alone,) = pooled(1, measure, data, 4)
    assert alone.num_samples == alone.expected_rows == num_rows
    assert alone.collectives == 0
    assert set(alone.means) == {"loss", "accuracy"}
    assert "accuracy_class_0" in alone.whole.metrics
    assert "accuracy_class_9" not in alone.whole.metrics  # it does not occur: no number is invented
    for world_size in (2, 3):
        several = pooled(world_size, measure, data, 4)
        assert all(result == several[0] for result in several)
        assert several[0].collectives == 1
        assert several[0].whole == alone.whole
