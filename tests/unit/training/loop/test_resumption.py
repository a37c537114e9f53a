"""Where a training keeps its checkpoints, and what it finds there."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.steps.trainings import EXECUTION, RECORD
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import Manifest
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.config import Config
from drivetrain.training.loop.identity import Identity
from drivetrain.training.loop.resumption import Training, find_training
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
CONFIG = Config(recipe="digits_cnn", epochs=12)
CODE = {"digits_cnn": "aaaa", "parts": "bbbb"}


def identity(config: Config = CONFIG, code: dict[str, str] = CODE, weights: str = "", data: str = "d1") -> Identity:
    return Identity(data, asdict(config), code, weights)


def find(root: Path, one: Identity, total: int = 120) -> Training:
    return find_training(root, one, total, ALONE)


def folder(training: Training) -> str:
    assert training.place is not None
    return Path(training.place.uri).name


def keep(root: Path, one: Identity, step: int) -> Training:
    """A training that has come to this step."""
    found = find(root, one)
    assert found.place is not None
    store = Store(found.place)
    store.begin(step)
    store.commit(Manifest(step=step, files=(), values={}))
    return found


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"strategy": "fsdp"}, True),
        ({"log_every": 1, "keep_last": 9, "workers": 2}, True),
        ({"epochs": 60}, False),
        ({"max_steps": 7}, False),
        ({"learning_rate": 0.5}, False),
        ({"early_stopping": 3}, False),
        ({"validate_every": 3}, False),
    ],
)
def test_fields_that_make_another_training(changed: dict[str, Any], same: bool) -> None:
    assert (identity(replace(CONFIG, **changed)).name == identity().name) is same


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (identity(replace(CONFIG, learning_rate=0.5, epochs=3)), "epochs 12 -> 3, learning_rate 0.003 -> 0.5"),
        (identity(code={"digits_cnn": "aaaa", "parts": "cccc"}), "code of parts (edited)"),
        (identity(weights="1" * 16), "weights to start from"),
        (identity(data="2" * 64), "data"),
    ],
)
def test_an_unfinished_training_stays_beside_another_one_and_is_named(
    other: Identity, said: str, tmp_path: Path
) -> None:
    keep(tmp_path, identity(data="1" * 64) if said == "data" else identity(), 40)
    found = find(tmp_path, other)
    assert folder(found) == other.name
    (line,) = found.lines
    assert line.startswith("an unfinished training stays beside this one") and line.endswith(f"differs in: {said}")


def test_an_ended_one_is_used_again_by_its_own_execution_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_JOB_NAME", "pipelines-one-train-x1")
    first = keep(tmp_path, identity(), 120)
    first.end()
    monkeypatch.setenv("TRAINING_JOB_NAME", "pipelines-one-train-x2")  # the service tries again
    assert folder(find(tmp_path, identity())) == folder(first)
    first.end()
    monkeypatch.setenv("TRAINING_JOB_NAME", "pipelines-two-train-x1")
    second = find(tmp_path, identity())
    assert folder(second) == f"{identity().name}-2"
    assert second.lines == ("the same training has ended before in run one: this one starts anew",)
    monkeypatch.setenv("TRAINING_JOB_NAME", "pipelines-three-train-x1")  # the second was interrupted
    assert folder(find(tmp_path, identity())) == folder(second)


def test_a_resumed_run_may_train_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTION, "one")
    first = keep(tmp_path, identity(), 40)
    longer = find(tmp_path, identity(replace(CONFIG, epochs=60)), 600)
    assert folder(longer) == folder(first)
    assert longer.starts(40) == "step 40 of this training (interrupted), epochs 12 -> 60"
    with pytest.raises(InputError, match="has taken 40 steps, and this one ends at step 10: epochs or max_steps are"):
        find(tmp_path, identity(replace(CONFIG, epochs=1)), 10)
    monkeypatch.setenv(EXECUTION, "two")
    assert folder(find(tmp_path, identity(replace(CONFIG, epochs=40)), 400)) != folder(first)
    assert folder(find(tmp_path, identity(replace(CONFIG, epochs=60)), 600)) != folder(first)


def test_checkpoints_whose_record_was_lost_with_the_machine_are_gone_on_with(tmp_path: Path) -> None:
    first = keep(tmp_path, identity(), 40)
    (tmp_path / identity().name / RECORD).unlink()
    assert folder(find(tmp_path, identity())) == folder(first)


def test_one_that_ran_long_is_not_taken_for_a_forgotten_one(tmp_path: Path) -> None:
    for data in ("d2", "d3"):
        keep(tmp_path, identity(data=data), 40)
    for path in tmp_path.rglob(RECORD):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "started": record["started"] - 31 * 86_400}))
    place = open_place(tmp_path / identity(data="d3").name)
    place.replace("attempts/00001.json", json.dumps({"number": 1, "time": record["started"]}).encode())
    assert "removed what 1 earlier training kept here" in find(tmp_path, identity()).lines
    assert not (tmp_path / identity(data="d2").name).exists()
    assert (tmp_path / identity(data="d3").name).exists()


def test_a_place_that_cannot_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roots own").mkdir()
    scan = os.scandir

    def guarded(path: Any) -> Any:
        if Path(path).name == "roots own":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(
        InputError, match=r"cannot look for checkpoints in .*: \[Errno 13\] Permission denied: '.*roots own'\. Fix"
    ):
        find(tmp_path, identity())


def test_a_place_that_is_away_is_no_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: FolderPlace, below: str = "") -> None:
        raise AwayError("given up after 120.0 s")

    monkeypatch.setattr(FolderPlace, "names", away)
    with pytest.raises(AwayError, match=r"^given up after 120\.0 s$"):
        find(tmp_path, identity())


def test_without_checkpoints_nothing_is_searched() -> None:
    training = find_training(None, identity(), 120, ALONE)
    assert (training.place, training.lines) == (None, ())
    assert training.starts(0) == "nothing (a new training)"
