"""Inputs, targets and outputs that are trees of tensors: bit for bit what the same recipe gives with single tensors."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.prediction.settings import Settings
from drivetrain.training.process import Process
from drivetrain.training.serving.model import ServedModel
from drivetrain.training_scripts import evaluate, predict
from drivetrain.training_scripts.train import train

PLAIN, TREES = "digits_cnn", "tests.fixtures.tree_recipe"
SCORED = "tests.fixtures.scored_recipe"  # a recipe without a method for its scores is ranked by its logits
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
COMMON: dict[str, Any] = {
    "recipe_options": '{"channels": 2, "hidden": 8}',
    "global_batch": 16,
    "epochs": 1,
    "accumulation": 2,
    "clip_norm": 0.5,
    "ema_decay": 0.9,
    "log_every": 1,
}


def fit(process: Process, recipe: str, strategy: str, data: Path, target: Path, more: dict[str, Any]) -> None:
    config = Config(recipe=recipe, strategy=strategy, **COMMON | more)
    train(config, Folders(train=data, validation=data, model=target / "model", output=target), process)


def measure(process: Process, model: Path, data: Path, target: Path) -> dict[str, float]:
    settings = Settings(batch_size=4, rows_per_shard=20)
    predict.run(model, data, target, process, settings=settings)
    return evaluate.run(model, data, process, batch_size=8)


@pytest.mark.slow_cases("ddp-more0")
@pytest.mark.parametrize(("strategy", "more"), [("ddp", {}), ("fsdp", {"workers": 1})])
def test_a_tree_gives_the_bits_of_its_tensors(
    strategy: str, more: dict[str, Any], pooled: Any, digits: Path, tmp_path: Path
) -> None:
    for recipe in (PLAIN, TREES):
        pooled(2, fit, recipe, strategy, digits, tmp_path / recipe, more)
    plain, tree = (tmp_path / recipe / "model/model.safetensors" for recipe in (PLAIN, TREES))
    assert plain.read_bytes() == tree.read_bytes()
    assert (tmp_path / PLAIN / "history.json").read_text() == (tmp_path / TREES / "history.json").read_text()


@pytest.mark.slow
def test_it_is_evaluated_predicted_and_served_alike(pooled: Any, digits: Path, tmp_path: Path) -> None:
    numbers, rows, served = [], [], []
    for recipe in (SCORED, TREES):
        target = tmp_path / recipe
        fit(ALONE, recipe, "single", digits, target, {})
        for ranks in (1, 2, 3):
            found = pooled(ranks, measure, target / "model", digits, target / f"predictions-{ranks}")
            numbers += found
            files = sorted((target / f"predictions-{ranks}").glob("*.parquet"))
            rows.append(parquet.read_table(files).to_pydict())
        model = ServedModel.load(target / "model", torch.device("cpu"))
        columns = Dataset(digits, model.recipe, ALONE).reader
        columns.open(model.recipe.columns)
        answers = model.predict(columns.read(slice(0, 5), model.recipe.columns))
        assert answers.scores is not None
        served.append((answers.predicted.tolist(), answers.scores.tolist()))
    assert numbers[0]["num_samples"] == 50 and "accuracy_class_3" in numbers[0]
    assert all(each == numbers[0] for each in numbers)
    assert all(each == rows[0] for each in rows) and len(rows[0]["predicted"]) == 50
    assert served[0] == served[1] and served[0][0] == rows[0]["predicted"][:5]


WRONG = {
    "no predicted": ("predicted = None", r"model\(\) .* a dict; .* predicted\(outputs\)"),
    "no truth": ("truth = None", r"batch\(\) .* a dict; .* truth\(targets\)"),
    "no tensor": (
        "def model(self):\n        model = super().model()\n"
        '        model.register_forward_hook(lambda *given: given[2] | {"cache": "x"})\n        return model',
        r"model\(\) of the recipe returned a dict; it must return tensors, or dicts",
    ),
    "another number of samples": (
        'def batch(self, columns, label):\n        batch = super().batch(columns, label)\n'
        '        batch.targets["weight"] = batch.targets["weight"][:1]\n        return batch',
        r"returned label \[\d+\], weight \[1\] for \d+ rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_tree_is_reported(
    what: str, prepared_data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, message = WRONG[what]
    name = f"wrong_tree_{what.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "from dataclasses import dataclass\nfrom tests.fixtures import tree_recipe\n"
        f"@dataclass(frozen=True, kw_only=True)\nclass Recipe(tree_recipe.Recipe):\n    {method}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(4))
    with pytest.raises(InputError, match=message):
        fit(ALONE, name, "single", data, tmp_path, {})
        measure(ALONE, tmp_path / "model", data, tmp_path / "predictions")


@pytest.mark.parametrize("strategy", ["pp", "cp"])
def test_strategies_of_one_tensor_refuse_a_tree(strategy: str, pooled: Any, digits: Path, tmp_path: Path) -> None:
    refused = pooled(2, refusal, strategy, digits, tmp_path)
    assert all("several" in said and "'ddp'" in said for said in refused), refused


def refusal(process: Process, strategy: str, data: Path, target: Path) -> str:
    with pytest.raises(InputError) as refused:
        fit(process, TREES, strategy, data, target, {"ema_decay": 0.0})
    return str(refused.value)
