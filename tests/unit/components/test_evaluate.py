from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.evaluate import evaluate
from drivetrain.registry.content_hash import content_hash

OPTIONS = {"channels": 2, "hidden": 4}


def load_prepared_data() -> ModuleType:
    path = Path(__file__).parents[2] / "distributed" / "prepared_data.py"
    spec = importlib.util.spec_from_file_location("prepared_data", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prepared_data = load_prepared_data()
    return prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(20))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    import torch

    from drivetrain.training.recipe import load_recipe
    from drivetrain.training.torch.framework import Framework

    torch.manual_seed(0)
    description = {"recipe": "digits_cnn", "recipe_options": OPTIONS, "precision": "fp32"}
    Framework.save_model(tmp_path / "model", load_recipe("digits_cnn", OPTIONS).model().state_dict(), description)
    return tmp_path / "model"


def command(model: Path, data: Path, metrics: Path, *more: str, **variables: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--model", str(model), "--data", str(data), "--metrics", str(metrics), "--batch-size", "7"]
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.components.evaluate", *arguments, *more],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_folder_and_its_archive_give_the_same_numbers(model: Path, data: Path, tmp_path: Path) -> None:
    by_command = command(model, data, tmp_path / "metrics", "--report", str(tmp_path / "report"))
    assert (by_command.returncode, by_command.stderr) == (0, "")
    numbers = json.loads((tmp_path / "metrics/metrics.json").read_text())
    assert json.loads(by_command.stdout[by_command.stdout.index("{") :]) == numbers
    assert numbers["num_samples"] == 20
    assert "20 of 20 samples counted, each once" in by_command.stdout
    document = json.loads((tmp_path / "report/evaluation.json").read_text())
    assert document["model"]["content_hash"] == content_hash(model)
    assert {name: entry["value"] for name, entry in document["metrics"].items()}.items() <= numbers.items()
    assert 0 <= numbers["accuracy"] <= 1
    assert {f"accuracy_class_{number}" for number in range(8)} <= set(numbers)
    assert "accuracy_class_9" not in numbers
    assert numbers["loss"] > 0

    channel = tmp_path / "channel"
    channel.mkdir()
    with tarfile.open(channel / "model.tar.gz", "w:gz") as archive:
        for file in model.iterdir():
            archive.add(file, f"./{file.name}")
    assert evaluate(channel, data, batch_size=7) == numbers


def test_a_folder_without_a_model(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = command(tmp_path / "empty", data, tmp_path / "metrics")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: {tmp_path / 'empty'} holds no model: neither model.json nor model.tar.gz.")
    assert not (tmp_path / "metrics/metrics.json").exists()


@pytest.mark.slow
def test_bad_data_is_one_line_from_the_program(model: Path, data: Path, tmp_path: Path) -> None:
    (data / "part-00001.parquet").unlink()
    ended = command(model, data, tmp_path / "metrics", DRIVETRAIN_FAILURE_FILE=str(tmp_path / "failure"))
    assert ended.returncode == 2
    assert ended.stderr == (
        f"error: shard {data / 'part-00001.parquet'} is missing, but manifest.json lists it. "
        "Prepare or copy the data again.\n"
    )
    assert (tmp_path / "failure").read_text() == ended.stderr
    assert not (tmp_path / "metrics/metrics.json").exists()


def test_the_folder_of_a_training_without_checkpoints(data: Path, tmp_path: Path) -> None:
    """A folder of data has a manifest.json too."""
    with pytest.raises(InputError, match="holds no model: neither"):
        evaluate(data, data)


def test_a_checkpoint_step_of_another_folder_is_refused(model: Path, data: Path) -> None:
    with pytest.raises(InputError, match=r"checkpoint='120', but .*model is no folder of checkpoints"):
        evaluate(model, data, checkpoint="120")


def test_a_folder_without_complete_checkpoints_is_refused(data: Path, tmp_path: Path) -> None:
    """What the program that opens it says is the reason of the step."""
    folder = tmp_path / "checkpoints" / "step-00000012"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    ended = command(tmp_path / "checkpoints", data, tmp_path / "metrics", DRIVETRAIN_FAILURE_FILE=str(tmp_path / "why"))
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert (tmp_path / "why").read_text() == ended.stderr
    assert "step-00000012" in ended.stderr or "no whole checkpoint" in ended.stderr
