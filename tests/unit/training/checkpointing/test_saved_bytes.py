from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.saved_bytes import SavedBytes
from drivetrain.training.checkpointing.store import lock


def kept(folder: Path, said: list[str] | None = None) -> SavedBytes:
    return SavedBytes(open_place(folder), (said if said is not None else []).append)


def save(folder: Path, *steps: int) -> None:
    with kept(folder) as checkpoints:
        for step in steps:
            checkpoints.save(step, {"step": step}, b"model %d" % step)


def test_the_newest_is_found_and_two_stay(tmp_path: Path) -> None:
    with kept(tmp_path) as checkpoints:
        assert checkpoints.newest() is None
    save(tmp_path, 3, 6, 9)
    said: list[str] = []
    with kept(tmp_path, said) as checkpoints:
        assert checkpoints.newest() == ({"step": 9}, b"model 9")
    assert said == [f"resuming from {tmp_path}/step-00000009"]
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"step-00000006", "step-00000009"}


@pytest.mark.parametrize("name", ["model", "values.json", "manifest.json"])
def test_a_damaged_one_is_quarantined_and_the_one_before_it_taken(name: str, tmp_path: Path) -> None:
    save(tmp_path, 3, 6)
    file = tmp_path / "step-00000006" / name
    file.write_bytes(file.read_bytes()[:-1])
    said: list[str] = []
    with kept(tmp_path, said) as checkpoints:
        assert checkpoints.newest() == ({"step": 3}, b"model 3")
        checkpoints.save(6, {}, b"again")
    assert "checkpoint 6 is damaged" in said[0] and "quarantine/step-00000006.1" in said[0]
    with kept(tmp_path) as checkpoints:
        assert checkpoints.newest() == ({}, b"again")


def test_one_that_has_not_come_whole_is_passed_by(tmp_path: Path) -> None:
    save(tmp_path, 3, 6)
    (tmp_path / "step-00000006" / "model").unlink()
    said: list[str] = []
    with kept(tmp_path, said) as checkpoints:
        assert checkpoints.newest() == ({"step": 3}, b"model 3")
    assert "checkpoint 6 is not whole" in said[0]


def test_a_full_disk_is_said_and_the_one_before_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 3)
    said: list[str] = []
    with kept(tmp_path, said) as checkpoints:

        def full(name: str, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(checkpoints._place, "write", full)
        checkpoints.save(6, {}, b"more")
    assert "checkpoint 6 could not be saved: " in said[0] and "the one before it remains" in said[0]
    with kept(tmp_path) as checkpoints:
        assert checkpoints.newest() == ({"step": 3}, b"model 3")


def test_a_second_training_in_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.Lock.__init__, "__kwdefaults__", {"patience_s": 0.2, "beat_s": 0.05})
    with kept(tmp_path), pytest.raises(InputError, match="Two trainings cannot write to one checkpoint folder"):
        kept(tmp_path)
