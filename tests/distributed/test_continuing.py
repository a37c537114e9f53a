"""A training that was asked to go on from an earlier model goes on from its training state."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain.registry.content_hash import content_hash
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train

CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=3,
    schedule="constant",
    ema_decay=0.9,
    checkpoint_every="epoch",
)


def fit(process: Process, config: Config, data: Path, target: Path, earlier: Path | None = None) -> None:
    folders = Folders(
        train=data,
        validation=data,
        model=target / "model",
        output=target,
        checkpoints=target / "checkpoints",
        continue_from=earlier,
    )
    train(config, folders, process)


def previous(folder: Path, version: int = 0) -> Path:
    """What fetch_previous writes of the model in a training's folder; of none where there is no version."""
    target = folder / "previous"
    target.mkdir(parents=True)
    about: dict[str, str] = {}
    if version:
        about = {"group": "digits", "version": str(version), "content_hash": content_hash(folder / "model")}
        shutil.copytree(folder / "model", target / "model")
    (target / "continues.json").write_text(json.dumps(about))
    return target


def files(folder: Path) -> dict[str, bytes]:
    """Of the model's folder, without its training state."""
    inside = [path for path in (folder / "model").rglob("*") if path.is_file()]
    named = {str(path.relative_to(folder / "model")): path.read_bytes() for path in inside}
    return {name: content for name, content in named.items() if not name.startswith("training/")}


def described(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "model" / "model.json").read_bytes())


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("ranks", [1, 2])
def test_continuing_on_the_same_data_equals_one_longer_training(
    ranks: int, pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = CONFIG if ranks == 1 else replace(CONFIG, strategy="ddp")
    pooled(ranks, fit, config, digits, tmp_path / "one", previous(tmp_path / "zero"))
    assert "starts from: nothing (there is no earlier model)" in capfd.readouterr().out
    earlier = previous(tmp_path / "one", 7)
    pooled(ranks, fit, replace(config, epochs=4), digits, tmp_path / "two", earlier)
    printed = capfd.readouterr().out
    assert "starts from: digits version 7 at step 12, the same data\n" in printed
    assert "epoch 3/4" not in printed and "epoch 4/4" in printed
    pooled(ranks, fit, replace(config, epochs=4), digits, tmp_path / "once", None)
    assert files(tmp_path / "two")["model.safetensors"] == files(tmp_path / "once")["model.safetensors"]
    about = described(tmp_path / "two")
    assert about.pop("continues") == {
        "group": "digits",
        "version": "7",
        "content_hash": content_hash(tmp_path / "one" / "model"),
        "step": 12,
    }
    assert [entry["step"] for entry in json.loads((tmp_path / "two" / "history.json").read_bytes())] == [4, 8, 12, 16]


@pytest.mark.slow
def test_other_data_start_from_their_beginning_with_the_restored_optimizer(
    pooled: Any, digits: Path, prepared_data: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = prepared_data.write_prepared(tmp_path / "other", prepared_data.digit_columns(50, seed=1))
    pooled(1, fit, CONFIG, digits, tmp_path / "one", previous(tmp_path / "zero"))
    pooled(1, fit, replace(CONFIG, epochs=2), other, tmp_path / "two", previous(tmp_path / "one", 1))
    pooled(1, fit, replace(CONFIG, epochs=2), other, tmp_path / "anew")
    printed = capfd.readouterr().out
    assert "starts from: digits version 1 at step 12, a new pass over other data\n" in printed
    assert [entry["step"] for entry in json.loads((tmp_path / "two" / "history.json").read_bytes())] == [16, 20]
    assert files(tmp_path / "two")["model.safetensors"] != files(tmp_path / "anew")["model.safetensors"]
    assert not (tmp_path / "anew" / "model" / "training").exists(), "who does not ask pays for nothing"
    # A third night goes on, and so does one that has nothing left to do.
    pooled(1, fit, replace(CONFIG, epochs=3), other, tmp_path / "three", previous(tmp_path / "two", 2))
    assert "starts from: digits version 2 at step 20, the same data\n" in capfd.readouterr().out
    pooled(1, fit, replace(CONFIG, epochs=3), other, tmp_path / "four", previous(tmp_path / "three", 3))
    assert "digits version 3 at step 24, where epochs=3 end: nothing is left to train" in capfd.readouterr().out
    assert files(tmp_path / "four")["model.safetensors"] == files(tmp_path / "three")["model.safetensors"]


def test_equal_trainings_publish_equal_bytes(pooled: Any, digits: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        pooled(1, fit, replace(CONFIG, epochs=1), digits, tmp_path / name, previous(tmp_path / f"none-{name}"))
    assert content_hash(tmp_path / "one" / "model") == content_hash(tmp_path / "two" / "model")
    assert (tmp_path / "one" / "model" / "training" / "step-00000004" / "manifest.json").is_file()


@pytest.mark.slow
def test_a_model_without_a_training_state_gives_its_weights(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pooled(1, fit, CONFIG, digits, tmp_path / "one")
    pooled(1, fit, CONFIG, digits, tmp_path / "two", previous(tmp_path / "one", 1))
    assert "starts from: the weights of digits version 1, which has no training state: the" in capfd.readouterr().out
    assert (tmp_path / "two" / "model" / "training").is_dir()
