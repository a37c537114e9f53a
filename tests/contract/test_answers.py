"""A model and the table of its answers are evaluated alike: the same digits, whoever asked the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.prediction.settings import Settings as PredictionSettings
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.framework import Framework
from drivetrain.training_scripts import predict
from drivetrain.training_scripts.evaluate import run
from tests.distributed import prepared_data
from tests.fixtures import any_task, tiny_data

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
ROWS = 61
SITES = ("east", "north")
RECIPES = [name for name in plugins.recipes_alone("torch") if name != "decoder_lm"]


def write_model(folder: Path, recipe: str, options: dict[str, Any]) -> Path:
    torch.manual_seed(0)
    model = load_recipe(recipe, options).model()
    description = {"recipe": recipe, "recipe_options": options, "precision": "fp32"}
    Framework.save_model(folder, model.state_dict(), description)
    return folder


def write_data(folder: Path, kind: str) -> Path:
    random = np.random.default_rng(0)
    task, outputs = any_task.KINDS[kind]
    labels: Any = {
        "binary": random.integers(0, 2, ROWS),
        "multiclass": random.integers(0, 3, ROWS),
        "multilabel": random.integers(0, 2, (ROWS, 2)).tolist(),
        "regression": random.normal(size=(ROWS, 2)).tolist() if outputs == 2 else random.normal(size=ROWS),
    }[task]
    columns = {f"x{number}": random.normal(size=ROWS).astype(np.float32) for number in range(4)}
    sites = [SITES[row % 2] for row in range(ROWS)]
    prepared_data.write_prepared(folder, {"id": np.arange(ROWS), **columns, "site": sites, "label": labels})
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["statistics"] = {"site": {"values": [{"value": site, "rows": 1} for site in SITES]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def reports(model: Path, data: Path, folder: Path, settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reports of evaluate on a model, and on the table that batch_predict made of it."""
    predict.run(model, data, folder / "answers", ALONE, settings=PredictionSettings(batch_size=16))
    run(model, data, ALONE, settings=settings, report=folder / "model-report")
    run(None, data, ALONE, answers=folder / "answers", settings=settings, report=folder / "answers-report")
    return contents(folder / "model-report"), contents(folder / "answers-report")


def contents(report: Path) -> dict[str, Any]:
    return {name: json.loads((report / f"{name}.json").read_text()) for name in ("evaluation", "bootstrap", "curves")}


def shared(content: dict[str, Any], own: tuple[str, ...]) -> dict[str, Any]:
    """The metrics of a group but for the loss and the recipe's own."""
    return {name: value for name, value in content["metrics"].items() if not name.startswith(("loss", *own))}


def check_equal(asked: dict[str, Any], told: dict[str, Any], *own: str) -> None:
    one, other = asked["evaluation"], told["evaluation"]
    assert shared(one, own) and shared(one, own) == shared(other, own)
    assert [(each["value"], shared(each, own)) for each in one["slices"]] == [
        (each["value"], shared(each, own)) for each in other["slices"]
    ]
    assert one["task"] == other["task"] and one["coverage"] == other["coverage"]
    assert shared(asked["bootstrap"], own) == shared(told["bootstrap"], own)
    assert asked["curves"] == told["curves"]
    assert "loss" not in one and other["loss"]


@pytest.mark.parametrize("mode", ["histogram", "exact"])
@pytest.mark.parametrize("kind", any_task.KINDS)
def test_answers_of_every_task_have_the_digits_of_the_model(kind: str, mode: Any, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "tests.fixtures.any_task", {"kind": kind})
    data = write_data(tmp_path / "data", kind)
    settings = Settings(batch_size=16, bootstrap=20, slices="site", mode=mode)
    asked, told = reports(model, data, tmp_path, settings)
    check_equal(asked, told, "distance")
    assert told["evaluation"]["model"]["answers"]


@pytest.mark.slow_cases("ants_bees_resnet18", "cifar10_resnet")
@pytest.mark.parametrize("recipe", RECIPES)
def test_answers_of_every_recipe_have_the_digits_of_the_model(recipe: str, tmp_path: Path) -> None:
    options = tiny_data.SMALL.get(recipe, {})
    reader = getattr(load_recipe(recipe, {}), "reader", "prepared")
    # (Beside a folder `test` of texts lies the one whose words they are read by.)
    tiny_data.write(reader, tmp_path / "data/train", rows=21)
    data = tiny_data.write(reader, tmp_path / "data/test", rows=21)
    model = write_model(tmp_path / "model", recipe, options)
    asked, told = reports(model, data, tmp_path, Settings(batch_size=16, bootstrap=20))
    check_equal(asked, told, "accuracy_class")


def test_answers_of_a_language_model_are_refused(tmp_path: Path) -> None:
    data = tiny_data.write("text", tmp_path / "data", rows=8)
    model = write_model(tmp_path / "model", "decoder_lm", tiny_data.SMALL["decoder_lm"])
    predict.run(model, data, tmp_path / "answers", ALONE)
    with pytest.raises(InputError, match="holds answers of a tokens model, which a table cannot be evaluated for"):
        run(None, data, ALONE, answers=tmp_path / "answers")
