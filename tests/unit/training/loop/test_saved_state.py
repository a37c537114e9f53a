"""A checkpoint that somebody has written by hand, checksums and all, ends no training: an older one is loaded."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
OPTIONS = '{"channels": 2, "hidden": 4}'
CONFIG = Config(recipe="digits_cnn", recipe_options=OPTIONS, epochs=2, global_batch=20, checkpoint_every="epoch")
Change = Callable[[dict[str, Any]], None]


def put(value: Any, *path: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        *keys, last = path
        for key in keys:
            document = document[key]
        document[last] = value

    return change


def drop(name: str) -> Change:
    return lambda document: document.pop(name)


def generator(**fields: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        (name,) = (name for name in document["tensors"] if name.startswith("generators/") and name.endswith("/torch"))
        document["tensors"][name] |= fields

    return change


STATE: dict[str, Change] = {
    "weight": put("much", "losses", "weight"),
    **{f"no {name}": drop(name) for name in ("step", "consumed", "history", "owed", "losses", "watch", "config")},
    "step as text": put("four", "step"),
    "a negative step": put(-4, "step"),
    "another step": put(2, "step"),
    "a true step": put(True, "step"),
    "consumed as text": put("x", "consumed"),
    "a negative place": put(-1, "consumed"),
    "a place beyond 64 bits": put(10**30, "consumed"),
    "another place": put(20, "consumed"),
    "losses as text": put("x", "losses"),
    "sums as text": put(["a"], "losses", "sums"),
    "a best as text": put("x", "watch", "best"),
    "history as an object": put({}, "history"),
    "history of numbers": put([1, 2], "history"),
    "metrics as text": put([{"epoch": 1, "step": 2, "train_loss": "low"}], "history"),
    "owed as text": put("x", "owed"),
    "config as a list": put([], "config"),
    "code as a number": put(3, "config", "code"),
    "groups of numbers": put([3], "strategy", "groups"),
    "a group of a number": put([{"params": 3}], "strategy", "groups"),
    "a rate as text": put("x", "strategy", "groups", 0, "lr"),
}
INDEX: dict[str, Change] = {
    "a generator of 10^15": generator(shape=[10**15]),
    "a generator of nothing": generator(shape=[10**15], chunks=[]),
    "a generator in two dimensions": generator(shape=[79, 64], chunks=[]),
}


@pytest.fixture(scope="module")
def trained(prepared_data: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    prepared_data.write_prepared(folder / "data", prepared_data.digit_columns(40))
    fit(folder, CONFIG)
    return folder


def fit(folder: Path, config: Config) -> None:
    data = folder / "data"
    with patch.dict(os.environ, {EXECUTION: "one"}):  # which may train for longer
        train(config, Folders(train=data, model=folder / "model", checkpoints=folder / "checkpoints"), ALONE)


def newest(folder: Path) -> Path:
    (manifest,) = folder.rglob("step-00000004/manifest.json")
    return manifest.parent


def rewrite(checkpoint: Path, file: str, change: Change) -> None:
    """And let the manifest vouch for it."""
    document = json.loads((checkpoint / file).read_text())
    change(document)
    (checkpoint / file).write_text(json.dumps(document))
    manifest = Manifest.from_bytes((checkpoint / "manifest.json").read_bytes())
    files: list[FileEntry] = []
    for entry in manifest.files:
        data = (checkpoint / entry.name).read_bytes()
        files.append(FileEntry(entry.name, len(data), zlib.crc32(data)))
    (checkpoint / "manifest.json").write_bytes(replace(manifest, files=tuple(files)).to_bytes())


@pytest.mark.slow_cases(but=["step as text", "no losses", "a rate as text", "a generator of 10^15"])
@pytest.mark.parametrize("what", [*STATE, *INDEX])
def test_an_older_one_is_loaded(what: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    file = "state.json" if what in STATE else "index.json"
    rewrite(newest(tmp_path / "copy"), file, {**STATE, **INDEX}[what])
    fit(tmp_path / "copy", replace(CONFIG, epochs=3))
    said = capsys.readouterr().out
    assert "checkpoint 4 in" in said and "is damaged" in said
    assert "step-00000002\n" in said.partition("resuming from ")[2]
    assert (tmp_path / "copy/model/model.json").exists()


def test_an_untouched_checkpoint_is_loaded(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    rewrite(newest(tmp_path / "copy"), "state.json", lambda document: None)
    fit(tmp_path / "copy", replace(CONFIG, epochs=3))
    assert "step-00000004\n" in capsys.readouterr().out.partition("resuming from ")[2]


@pytest.mark.parametrize("leads", ["to a folder", "nowhere"])
def test_a_quarantine_that_is_a_link_is_not_followed(
    leads: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    checkpoint = newest(tmp_path / "copy")
    elsewhere = tmp_path / "elsewhere"
    if leads == "to a folder":
        elsewhere.mkdir()
    (checkpoint.parent / "quarantine").symlink_to(elsewhere)
    rewrite(checkpoint, "state.json", drop("losses"))
    fit(tmp_path / "copy", replace(CONFIG, epochs=3))
    assert "step-00000002\n" in capsys.readouterr().out.partition("resuming from ")[2]
    assert not elsewhere.exists() or not list(elsewhere.iterdir())
