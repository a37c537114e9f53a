"""The model folder that a training leaves: its content goes with what decided the weights."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.registration import Evidence, lineage_of
from drivetrain.training.config import LOOKS_ON, Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train
from tests.distributed import prepared_data

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
CONFIG = Config(recipe="digits_cnn", recipe_options='{"channels": 2, "hidden": 4}', max_steps=2, global_batch=8)
OTHERWISE = {
    "log_every": 1,
    "profile": 1,
    "health": False,
    "health_cost": 0.5,
    "health_rules": '{"overtraining": "off"}',
    "prefetch": 0,
    "collective_timeout": 60.0,
    "checkpoint_every": "1steps",
    "mtbf_hours": 2.0,
    "keep_last": 1,
    "keep_best_n": 1,
    "keep_every_hours": 1.0,
    "async_checkpoints": False,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_data.write_prepared(tmp_path_factory.mktemp("data"), prepared_data.digit_columns(24))


def trained(config: Config, data: Path, folder: Path) -> Path:
    places = {name: folder / name for name in ("model", "output", "checkpoints")}
    train(config, Folders(train=data, validation=data, **places), ALONE)
    return folder / "model"


def test_observing_fields_do_not_change_the_model_identity(data: Path, tmp_path: Path) -> None:
    assert OTHERWISE.keys() | {"workers"} == set(LOOKS_ON)  # (which needs prefetch, and starts processes)
    one = trained(CONFIG, data, tmp_path / "one")
    other = trained(replace(CONFIG, **OTHERWISE), data, tmp_path / "other")
    assert content_hash(one) == content_hash(other)


def test_fields_that_decide_the_weights_are_recorded(data: Path, tmp_path: Path) -> None:
    folder = trained(CONFIG, data, tmp_path)
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    of_the_run = {"world_size", "steps", "stopped_early"}
    assert description["training"].keys() == {field.name for field in fields(Config)} - set(LOOKS_ON) | of_the_run
    assert (description["training"]["max_steps"], description["training"]["world_size"]) == (2, 1)
    config = lineage_of({}, Evidence(description))["config"]
    description["training"]["learning_rate"] *= 2
    assert lineage_of({}, Evidence(description))["config"] != config
