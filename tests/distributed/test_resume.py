"""A restarted training goes on where it was, and ends with the same bytes."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file

from drivetrain.steps import FRESH_VARIABLE, NOT_FRESH
from drivetrain.steps.trainings import EXECUTION, RECORD
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train

CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=4,
    checkpoint_every="epoch",
)


def fit(
    process: Process,
    config: Config,
    data: Path,
    target: Path,
    checkpoints: Path,
    execution: str = "",
    fresh: str = NOT_FRESH,
) -> None:
    folders = Folders(train=data, validation=data, model=target / "model", output=target, checkpoints=checkpoints)
    with patch.dict(os.environ, {EXECUTION: execution, FRESH_VARIABLE: fresh}):
        train(config, folders, process)


def files(folder: Path) -> dict[str, bytes]:
    inside = [path for path in (folder / "model").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder / "model")): path.read_bytes() for path in inside} | {
        "history": (folder / "history.json").read_bytes()
    }


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("world_size", [1, 2])
def test_resumed_equals_uninterrupted(
    world_size: int, pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "checkpoints"
    pooled(world_size, fit, CONFIG, digits, tmp_path / "whole", kept)
    (data_folder,) = kept.iterdir()
    assert sorted(path.name for path in data_folder.glob("step-*")) == [f"step-{s:08d}" for s in (8, 12, 16)]
    capfd.readouterr()

    # What a training killed in its third epoch leaves: two checkpoints, and one that was being written.
    shutil.rmtree(data_folder / "step-00000016")
    (data_folder / "step-00000012" / "manifest.json").unlink()
    (data_folder / RECORD).unlink()
    pooled(world_size, fit, CONFIG, digits, tmp_path / "resumed", kept)

    printed = capfd.readouterr().out
    assert "resuming from" in printed and "starts from: step 8 of this training (interrupted)\n" in printed
    assert "step-00000008" in printed
    assert "epoch 2/4" not in printed
    assert "epoch 3/4" in printed
    assert files(tmp_path / "resumed") == files(tmp_path / "whole")


@pytest.mark.slow
def test_a_finished_training_writes_its_model_again_in_its_own_execution(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, execution in (("first", "one"), ("again", "one"), ("later", "two")):
        capfd.readouterr()
        pooled(2, fit, CONFIG, digits, tmp_path / name, tmp_path / "checkpoints", execution)
        assert ("epoch 1/4" in capfd.readouterr().out) is (name != "again")
        assert files(tmp_path / name) == files(tmp_path / "first")


@pytest.mark.slow
def test_another_world_size_resumes(pooled: Any, digits: Path, tmp_path: Path) -> None:
    pooled(2, fit, replace(CONFIG, epochs=2), digits, tmp_path / "two", tmp_path / "checkpoints", "run")
    pooled(1, fit, replace(CONFIG, epochs=3), digits, tmp_path / "one", tmp_path / "checkpoints", "run")
    (data_folder,) = (tmp_path / "checkpoints").iterdir()
    assert (data_folder / "step-00000012").is_dir()


def test_new_data_starts_afresh(pooled: Any, digits: Path, prepared_data: ModuleType, tmp_path: Path) -> None:
    other = prepared_data.write_prepared(tmp_path / "other", prepared_data.digit_columns(50, seed=1))
    pooled(1, fit, CONFIG, digits, tmp_path / "old", tmp_path / "checkpoints")
    pooled(1, fit, CONFIG, other, tmp_path / "new", tmp_path / "checkpoints")
    pooled(1, fit, CONFIG, other, tmp_path / "fresh", tmp_path / "nothing-here-yet")
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    assert files(tmp_path / "new") == files(tmp_path / "fresh")


def interrupted(pooled: Any, digits: Path, tmp_path: Path, config: Config = CONFIG) -> Path:
    """A training that was killed after its third epoch; the folder of its checkpoints."""
    pooled(2, fit, config, digits, tmp_path / "first", tmp_path / "checkpoints")
    (folder,) = (tmp_path / "checkpoints").iterdir()
    shutil.rmtree(folder / "step-00000016")
    (folder / RECORD).unlink()
    return folder


def test_a_fresh_start_keeps_an_interrupted_training(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And is itself gone on with by the same token alone."""
    folder = interrupted(pooled, digits, tmp_path)
    for token, starts in (("7f", "nothing (--fresh)"), ("8e", "nothing (--fresh)"), (NOT_FRESH, "step 12 of this")):
        capfd.readouterr()
        pooled(2, fit, CONFIG, digits, tmp_path / token, tmp_path / "checkpoints", "", token)
        printed = capfd.readouterr().out
        assert f"starts from: {starts}" in printed and ("epoch 1/4" in printed) is (token != NOT_FRESH)
        assert files(tmp_path / token) == files(tmp_path / "first")
    assert (folder / "step-00000012").is_dir()


@pytest.mark.slow
def test_more_epochs_are_another_training(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whose learning rate takes another way: it is the one that it would be alone."""
    for epochs in (1, 2):
        config = replace(CONFIG, epochs=epochs)
        pooled(1, fit, config, digits, tmp_path / f"of-{epochs}", tmp_path / "checkpoints", f"run {epochs}")
    assert capfd.readouterr().out.count("starts from: nothing (a new training)\n") == 2
    pooled(1, fit, config, digits, tmp_path / "alone", tmp_path / "elsewhere", "run 3")
    assert files(tmp_path / "of-2") == files(tmp_path / "alone")


@pytest.mark.slow
def test_another_training_starts_anew_beside_an_unfinished_one(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pooled(2, fit, CONFIG, digits, tmp_path / "first", tmp_path / "checkpoints")
    (record,) = (tmp_path / "checkpoints").glob(f"*/{RECORD}")
    record.write_text(record.read_text().replace('"ended": true', '"ended": false'))
    shutil.rmtree(record.parents[1] / "step-00000016")
    changed = replace(CONFIG, learning_rate=0.5)
    capfd.readouterr()
    pooled(2, fit, changed, digits, tmp_path / "second", tmp_path / "checkpoints")
    said = capfd.readouterr().out
    assert "It differs in: learning_rate 0.003 -> 0.5\n" in said and "starts from: nothing (a new training)\n" in said
    pooled(2, fit, changed, digits, tmp_path / "alone", tmp_path / "elsewhere")
    assert files(tmp_path / "second") == files(tmp_path / "alone")
    # And the first one is still there to go on with.
    pooled(2, fit, CONFIG, digits, tmp_path / "resumed", tmp_path / "checkpoints")
    assert "starts from: step 12 of this training (interrupted)\n" in capfd.readouterr().out
    assert files(tmp_path / "resumed") == files(tmp_path / "first")


@pytest.mark.slow
def test_a_finished_training_does_not_block_a_new_one(pooled: Any, digits: Path, tmp_path: Path) -> None:
    pooled(1, fit, CONFIG, digits, tmp_path / "first", tmp_path / "checkpoints")
    for number, changed in enumerate((replace(CONFIG, seed=1), replace(CONFIG, epochs=2)), start=2):
        pooled(1, fit, changed, digits, tmp_path / "beside", tmp_path / "checkpoints")
        pooled(1, fit, changed, digits, tmp_path / "alone", tmp_path / f"nothing-here-yet-{number}")
        assert files(tmp_path / "beside") == files(tmp_path / "alone")
        assert len(list((tmp_path / "checkpoints").iterdir())) == 2  # of those that have ended the last one stays


@pytest.mark.slow
def test_another_strategy_resumes(pooled: Any, digits: Path, tmp_path: Path) -> None:
    folder = interrupted(pooled, digits, tmp_path)
    pooled(2, fit, replace(CONFIG, strategy="fsdp"), digits, tmp_path / "sliced", tmp_path / "checkpoints")
    assert list((tmp_path / "checkpoints").iterdir()) == [folder]
    whole, sliced = (load_file(tmp_path / name / "model/model.safetensors") for name in ("first", "sliced"))
    for name, tensor in whole.items():
        torch.testing.assert_close(sliced[name], tensor, rtol=0, atol=1e-4)


def write_recipe(path: Path, channels: int) -> None:
    path.write_text(
        "from dataclasses import dataclass\n"
        "from drivetrain.training_scripts.recipes import digits_cnn\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Recipe(digits_cnn.Recipe):\n"
        f"    channels: int = {channels}\n"
    )


@pytest.mark.slow
def test_an_edited_recipe_starts_afresh_beside_a_finished_training(
    forked: Any, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    config = replace(CONFIG, recipe="edited_recipe", recipe_options="{}", epochs=1)
    for channels in (3, 5):
        write_recipe(tmp_path / "edited_recipe.py", channels)
        forked(1, fit, config, digits, tmp_path / f"of-{channels}", tmp_path / "checkpoints")
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    assert files(tmp_path / "of-3") != files(tmp_path / "of-5")
