"""What is exported from a checkpoint is what the training hands on, byte for byte, however it was cut."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from drivetrain.training.process import Process
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training_scripts import checkpoints
from drivetrain.training_scripts.evaluate import run as evaluate
from drivetrain.training_scripts.train import Config, Folders, train

CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 8, "hidden": 32}',
    global_batch=16,
    epochs=2,
    learning_rate=1e-2,
    checkpoint_every="epoch",
)
CUTS = {
    "ddp": replace(CONFIG, strategy="ddp", ema_decay=0.9),
    "fsdp": replace(CONFIG, strategy="fsdp"),
    "fsdp with an average, in half": replace(CONFIG, strategy="fsdp", ema_decay=0.9, precision="bf16"),
    "tp": replace(CONFIG, strategy="tp", ema_decay=0.9),
    "pp": replace(CONFIG, strategy="pp", accumulation=2, ema_decay=0.9),
    # Steps too small to change any answer: of equal accuracies the first is the best, and the weights differ yet.
    "the best": replace(
        CONFIG, strategy="fsdp", keep_best=True, monitor="validation_accuracy", learning_rate=1e-9, precision="fp64"
    ),
}


def fit(process: Process, config: Config, data: Path, target: Path) -> None:
    folders = Folders(
        train=data, validation=data, model=target / "model", output=target, checkpoints=target / "checkpoints"
    )
    train(config, folders, process)


def export(target: Path, name: str, *more: object, checkpoint: str = "newest") -> Path:
    out = target / name
    code = checkpoints.run(["export", str(target / "checkpoints"), checkpoint, "--out", str(out), *map(str, more)])
    assert code == 0
    return out


def folder(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.slow_cases("tp", "pp", "ddp", "fsdp with an average, in half", "fsdp")
@pytest.mark.parametrize("cut", CUTS)
def test_an_exported_folder_equals_the_training_output(cut: str, pooled: Any, digits: Path, tmp_path: Path) -> None:
    config = CUTS[cut]
    pooled(2, fit, config, digits, tmp_path)
    more = ["--best"] if config.keep_best else []
    exported = export(tmp_path, "exported", *more)
    assert folder(exported) == folder(tmp_path / "model")
    assert "code/inference.py" in folder(exported)
    described = json.loads((exported / "model.json").read_text())
    assert described["training"]["world_size"] == 2 and "validation_loss" in described["metrics"]
    if config.keep_best:
        # The last one is another model, and says so.
        last = export(tmp_path, "last")
        assert (last / "model.safetensors").read_bytes() != (exported / "model.safetensors").read_bytes()
        history = json.loads((tmp_path / "history.json").read_text())
        described = json.loads((last / "model.json").read_text())
        assert described["step"] == history[-1]["step"] > json.loads((exported / "model.json").read_text())["step"]
        assert described["metrics"]["validation_loss"] == history[-1]["validation_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_checkpoint_in_between_is_a_model(ranks: int, pooled: Any, digits: Path, tmp_path: Path) -> None:
    """The first epoch's model, from a training on several ranks that was cut in slices: as one that ended there."""
    config = replace(CONFIG, strategy="fsdp", schedule="constant", ema_decay=0.9)
    pooled(ranks, fit, config, digits, tmp_path / "two")
    pooled(ranks, fit, replace(config, epochs=1), digits, tmp_path / "one")
    exported = export(tmp_path / "two", "exported", checkpoint="4")
    expected = load_file(tmp_path / "one" / "model" / "model.safetensors")
    found = load_file(exported / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    alone = Process(0, 1, 0, 1, torch.device("cpu"))
    assert evaluate(exported, digits, alone, batch_size=64)["num_samples"] == 50
    assert load_model(exported)[2]["step"] == 4


@pytest.mark.slow
def test_raw_weights_and_everything(pooled: Any, digits: Path, tmp_path: Path) -> None:
    pooled(2, fit, CUTS["tp"], digits, tmp_path)
    everything = load_file(export(tmp_path, "all.safetensors", "--optimizer"))
    average = load_file(export(tmp_path, "average.safetensors"))
    raw = load_file(export(tmp_path, "raw.safetensors", "--no-average"))
    assert raw.keys() == average.keys() == load_file(tmp_path / "model" / "model.safetensors").keys()
    assert any(not torch.equal(raw[name], average[name]) for name in raw)
    for name, tensor in raw.items():
        assert torch.equal(everything[f"model/{name}"], tensor)
        assert torch.equal(everything.get(f"average/{name}", tensor), average[name])
    assert any(name.startswith("optimizer/") for name in everything)


@pytest.mark.slow
def test_an_export_can_start_another_training(pooled: Any, digits: Path, tmp_path: Path) -> None:
    """A folder and a file as `weights`: with no step of any size, what comes out is what went in."""
    pooled(2, fit, CUTS["fsdp"], digits, tmp_path / "first")
    expected = load_file(tmp_path / "first" / "model" / "model.safetensors")
    for name in ("exported", "weights.safetensors"):
        exported = export(tmp_path / "first", name)
        target = tmp_path / name
        pooled(1, start_from, exported, digits, target)
        found = load_file(target / "model" / "model.safetensors")
        for tensor_name in expected:
            torch.testing.assert_close(found[tensor_name], expected[tensor_name], rtol=0, atol=1e-6)
        shutil.rmtree(target)


def start_from(process: Process, weights: Path, data: Path, target: Path) -> None:
    config = replace(CONFIG, strategy="single", max_steps=1, learning_rate=1e-9, weight_decay=0.0)
    train(config, Folders(train=data, model=target / "model", weights=weights), process)
