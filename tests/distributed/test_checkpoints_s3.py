"""A training on two ranks whose checkpoints are in S3, from beginning to end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train
from tests.fixtures.s3_server import make_bucket, s3_server, variables

CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=4,
    checkpoint_every="epoch",
)


@pytest.fixture
def uri(monkeypatch: pytest.MonkeyPatch) -> str:
    """Of nothing yet. This process itself does not ask: its ranks are forked."""
    for name, value in variables(s3_server()).items():
        monkeypatch.setenv(name, value)
    return f"s3://{make_bucket(s3_server())}/some/prefix/"


def fit(process: Process, data: Path, target: Path, checkpoints: Path | str) -> dict[str, bytes]:
    folders = Folders(train=data, validation=data, model=target / "model", output=target, checkpoints=checkpoints)
    with patch.dict(os.environ, {EXECUTION: "one"}):  # another one would start anew
        train(CONFIG, folders, process)
    inside = [path for path in (target / "model").rglob("*") if path.is_file()] if process.is_main else []
    return {str(path.relative_to(target)): path.read_bytes() for path in inside}


def names(process: Process, uri: str) -> dict[str, int]:
    return open_place(uri).names()


def interrupt(process: Process, uri: str, steps: list[int]) -> None:
    """As a kill would have left it: these steps were not committed, and an upload was begun."""
    place = open_place(uri)
    gone = [f"step-{step:08d}/manifest.json" for step in steps]
    place.remove([name for name in place.names() if name.endswith(tuple(gone))])
    folder = next(iter(place.names())).partition("/")[0]
    place._objects.begin(f"some/prefix/{folder}/step-00000016/rank-00000-of-00002", "mark")  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_checkpoint_in_s3_is_saved_and_resumed(
    forked: Any, digits: Path, tmp_path: Path, uri: str, capfd: pytest.CaptureFixture[str]
) -> None:
    in_a_folder, *_ = forked(2, fit, digits, tmp_path / "folder", tmp_path / "checkpoints")
    whole, *_ = forked(2, fit, digits, tmp_path / "whole", uri)
    assert whole == in_a_folder
    (kept,) = forked(1, names, uri)
    assert [name.partition("/")[2] for name in kept if name.endswith("/manifest.json")] == [
        f"step-{step:08d}/manifest.json" for step in (8, 12, 16)
    ]
    assert not [name for name in kept if name.endswith(".partial") or ".readers" in name]

    forked(1, interrupt, uri, [12, 16])
    capfd.readouterr()
    resumed, *_ = forked(2, fit, digits, tmp_path / "resumed", uri)
    printed = capfd.readouterr().out
    assert f"resuming from {uri}" in printed and "step-00000008" in printed and "epoch 2/4" not in printed
    assert resumed == whole
    (left,) = forked(1, names, uri)
    assert {name for name in left if "/attempts/" not in name} == {name for name in kept if "/attempts/" not in name}


@pytest.mark.slow
def test_a_missing_bucket_is_reported_at_the_start(forked: Any, digits: Path, tmp_path: Path, uri: str) -> None:
    with pytest.raises(AssertionError, match=r"404 NoSuchBucket .*need an existing bucket"):
        forked(2, fit, digits, tmp_path / "first", "s3://no-such-bucket-anywhere/prefix")
