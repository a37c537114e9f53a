"""A restarted training goes on where it was, and ends with the same bytes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train

CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=4,
    checkpoint_every="epoch",
)


def fit(process: Process, config: Config, data: Path, target: Path, checkpoints: Path) -> None:
    folders = Folders(train=data, validation=data, model=target / "model", output=target, checkpoints=checkpoints)
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
    pooled(world_size, fit, CONFIG, digits, tmp_path / "resumed", kept)

    printed = capfd.readouterr().out
    assert "resuming from" in printed
    assert "step-00000008" in printed
    assert "epoch 2/4" not in printed
    assert "epoch 3/4" in printed
    assert files(tmp_path / "resumed") == files(tmp_path / "whole")


@pytest.mark.slow
def test_a_finished_training_writes_its_model_again(pooled: Any, digits: Path, tmp_path: Path) -> None:
    for name in ("first", "again"):
        pooled(2, fit, CONFIG, digits, tmp_path / name, tmp_path / "checkpoints")
    assert files(tmp_path / "again") == files(tmp_path / "first")


@pytest.mark.slow
def test_another_world_size_goes_on(pooled: Any, digits: Path, tmp_path: Path) -> None:
    pooled(2, fit, replace(CONFIG, epochs=2), digits, tmp_path / "two", tmp_path / "checkpoints")
    pooled(1, fit, replace(CONFIG, epochs=3), digits, tmp_path / "one", tmp_path / "checkpoints")
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
    return folder


def test_changed_fields_are_refused_by_an_unfinished_training(
    pooled: Any, forked: Any, digits: Path, tmp_path: Path
) -> None:
    folder = interrupted(pooled, digits, tmp_path)
    changed = replace(CONFIG, learning_rate=0.5, epochs=9)
    with pytest.raises(AssertionError, match=r"at step 12, and these changed since: learning_rate 0\.003 -> 0\.5\. Un"):
        forked(2, fit, changed, digits, tmp_path / "second", tmp_path / "checkpoints")
    assert list((tmp_path / "checkpoints").iterdir()) == [folder]


@pytest.mark.slow
def test_changed_fields_may_start_afresh_beside_an_unfinished_training(
    pooled: Any, digits: Path, tmp_path: Path
) -> None:
    interrupted(pooled, digits, tmp_path)
    changed = replace(CONFIG, learning_rate=0.5, epochs=9)
    pooled(2, fit, replace(changed, on_change="fresh"), digits, tmp_path / "second", tmp_path / "checkpoints")
    pooled(2, fit, changed, digits, tmp_path / "alone", tmp_path / "elsewhere")
    assert files(tmp_path / "second") == files(tmp_path / "alone")
    # And the first one is still there to go on with.
    pooled(2, fit, CONFIG, digits, tmp_path / "resumed", tmp_path / "checkpoints")
    assert files(tmp_path / "resumed") == files(tmp_path / "first")


def test_changed_fields_can_be_resumed_with_and_then_need_no_more_words(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = interrupted(pooled, digits, tmp_path)
    changed = replace(CONFIG, learning_rate=0.5, on_change="resume", max_steps=14)
    capfd.readouterr()
    pooled(2, fit, changed, digits, tmp_path / "second", tmp_path / "checkpoints")
    printed = capfd.readouterr().out
    assert "going on although these changed since: learning_rate 0.003 -> 0.5\n" in printed
    assert "resuming from" in printed and "epoch 4/4 step 14" in printed
    # An interruption later it is what the folder holds.
    pooled(2, fit, replace(CONFIG, learning_rate=0.5), digits, tmp_path / "third", tmp_path / "checkpoints")
    assert list((tmp_path / "checkpoints").iterdir()) == [folder]


@pytest.mark.slow
def test_what_was_best_by_another_measure_is_forgotten(pooled: Any, digits: Path, tmp_path: Path) -> None:
    # It learns nothing that accuracy would show: by that the first validation stays the best.
    config = replace(CONFIG, keep_best=True, monitor="validation_accuracy", learning_rate=3.0, warmup_epochs=2.0)
    pooled(1, fit, config, digits, tmp_path / "first", tmp_path / "interrupted")
    (folder,) = (tmp_path / "interrupted").iterdir()
    for step in ("step-00000012", "step-00000016"):
        shutil.rmtree(folder / step)
    shutil.copytree(tmp_path / "interrupted", tmp_path / "interrupted too")
    last = replace(config, keep_best=False, on_change="resume")
    pooled(1, fit, last, digits, tmp_path / "last", tmp_path / "interrupted")
    pooled(1, fit, last, digits, tmp_path / "whole", tmp_path / "nothing here")
    model, right = (tmp_path / name / "model/model.safetensors" for name in ("last", "whole"))
    assert model.read_bytes() == right.read_bytes()
    by_loss = replace(config, monitor="validation_loss", on_change="resume")
    pooled(1, fit, by_loss, digits, tmp_path / "by loss", tmp_path / "interrupted too")
    best = json.loads((tmp_path / "by loss/model/model.json").read_text())["best"]
    history = json.loads((tmp_path / "by loss/history.json").read_text())
    found = min((entry for entry in history if entry["step"] > 8), key=lambda entry: entry["validation_loss"])
    assert (best["value"], best["step"]) == (found["validation_loss"], found["step"])


@pytest.mark.slow
def test_a_finished_training_does_not_stand_in_the_way(pooled: Any, digits: Path, tmp_path: Path) -> None:
    pooled(1, fit, CONFIG, digits, tmp_path / "first", tmp_path / "checkpoints")
    for number, changed in enumerate((replace(CONFIG, seed=1), replace(CONFIG, epochs=2)), start=2):
        pooled(1, fit, changed, digits, tmp_path / "beside", tmp_path / "checkpoints")
        pooled(1, fit, changed, digits, tmp_path / "alone", tmp_path / f"nothing-here-yet-{number}")
        assert files(tmp_path / "beside") == files(tmp_path / "alone")
        assert len(list((tmp_path / "checkpoints").iterdir())) == number


@pytest.mark.slow
def test_another_strategy_goes_on(pooled: Any, digits: Path, tmp_path: Path) -> None:
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


def test_an_edited_recipe_is_refused_by_an_unfinished_training(
    forked: Any, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoints would make the edit a training that never happened."""
    monkeypatch.syspath_prepend(tmp_path)
    config = replace(CONFIG, recipe="edited_recipe", recipe_options="{}")
    write_recipe(tmp_path / "edited_recipe.py", 3)
    interrupted(forked, digits, tmp_path, config)
    write_recipe(tmp_path / "edited_recipe.py", 5)  # ranks are forked: each imports the file as it is now
    with pytest.raises(AssertionError, match=r"these changed since: code of edited_recipe edited\. Undo that, or give"):
        forked(2, fit, config, digits, tmp_path / "second", tmp_path / "checkpoints")


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
