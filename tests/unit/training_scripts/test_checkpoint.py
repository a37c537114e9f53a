from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from drivetrain.training_scripts.checkpoint import CheckpointFolder, load_newest
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def save(checkpoints: CheckpointFolder, step: int) -> Path:
    weights = {"w": torch.full((3,), float(step)), "b": torch.arange(4)}
    return checkpoints.save(step, {"step": step}, model=weights, optimizer={"0.m": torch.ones(2)})


def newest_step(checkpoints: CheckpointFolder) -> int | None:
    found = load_newest(checkpoints, ALONE)
    return found and found[0]["step"]


def test_round_trip(tmp_path: Path) -> None:
    checkpoints = CheckpointFolder(tmp_path / "not/there/yet")
    assert load_newest(checkpoints, ALONE) is None
    save(checkpoints, 5)
    found = load_newest(checkpoints, ALONE)
    assert found is not None
    state, tensors = found
    assert state == {"step": 5}
    assert torch.equal(tensors["model"]["w"], torch.full((3,), 5.0))
    assert tensors["model"]["b"].dtype == torch.int64
    assert torch.equal(tensors["optimizer"]["0.m"], torch.ones(2))


def test_newest_by_number_and_only_the_last_three_stay(tmp_path: Path) -> None:
    checkpoints = CheckpointFolder(tmp_path)
    for step in (8, 9, 10, 11, 12):
        save(checkpoints, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000011", "step-00000012"]
    (tmp_path / "step-00000010").rename(tmp_path / "step-9")  # a name that sorts after the others
    manifest = json.loads((tmp_path / "step-9/manifest.json").read_text())
    (tmp_path / "step-9/manifest.json").write_text(json.dumps(manifest | {"step": 9}))
    assert newest_step(checkpoints) == 12


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "model.safetensors"),
        lambda folder: flip(folder / "state.json"),
        lambda folder: (folder / "optimizer.safetensors").unlink(),
        lambda folder: (folder / "model.safetensors").write_bytes(b""),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: folder.rename(folder.with_name("step-00000099")),
        lambda folder: folder.rename(folder.with_name(folder.name + ".sagemaker-uploading")),
    ],
)
def test_a_damaged_one_is_passed_by(damage: Callable[[Path], object], tmp_path: Path) -> None:
    checkpoints = CheckpointFolder(tmp_path)
    save(checkpoints, 1)
    damage(save(checkpoints, 2))
    assert newest_step(checkpoints) == 1
    save(checkpoints, 2)  # what an interrupted save left does not stand in the way of the next
    assert newest_step(checkpoints) == 2


def test_nothing_whole_means_a_fresh_start(tmp_path: Path) -> None:
    checkpoints = CheckpointFolder(tmp_path)
    flip(save(checkpoints, 1) / "model.safetensors")
    assert load_newest(checkpoints, ALONE) is None


def test_a_manifest_cannot_point_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    checkpoints = CheckpointFolder(tmp_path / "kept")
    folder = save(checkpoints, 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0]["file"] = "../../secret"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert load_newest(checkpoints, ALONE) is None


@pytest.mark.parametrize("file", ["state.json", "model.safetensors"])
def test_a_manifest_that_vouches_for_a_pickle(file: str, tmp_path: Path) -> None:
    checkpoints = CheckpointFolder(tmp_path)
    folder = save(checkpoints, 1)
    data = pickle.dumps({"weights": 1})
    (folder / file).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["file"] == file:
            entry |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"step-00000001 holds what no training wrote.*Remove it"):
        load_newest(checkpoints, ALONE)


def test_tied_weights_can_be_saved(tmp_path: Path) -> None:
    shared = torch.ones(3)
    checkpoints = CheckpointFolder(tmp_path)
    checkpoints.save(1, {}, model={"a": shared, "b": shared})
    found = load_newest(checkpoints, ALONE)
    assert found is not None
    assert torch.equal(found[1]["model"]["b"], shared)


def test_no_time_stamps(tmp_path: Path) -> None:
    first, second = save(CheckpointFolder(tmp_path / "a"), 1), save(CheckpointFolder(tmp_path / "b"), 1)
    assert {p.name: p.read_bytes() for p in first.iterdir()} == {p.name: p.read_bytes() for p in second.iterdir()}
