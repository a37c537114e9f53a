"""Damage is named and set aside; what is only missing is waited for."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, MissingError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.unit.training.checkpointing.store.saved import flip, save


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: flip(folder / "weights"), "step-00000005/weights has the checksum"),
        (lambda folder: (folder / "weights").write_bytes(b""), "weights has 0 bytes instead of 1,000"),
        (lambda folder: (folder / "weights").write_bytes(b"5" * 1001), "1,001 bytes instead of 1,000"),
        (lambda folder: flip(folder / "part/optimizer"), "part/optimizer has the checksum"),
        (lambda folder: flip(folder / MANIFEST_FILE), "differs from its own hash"),
        (lambda folder: (folder / MANIFEST_FILE).write_bytes(b""), "is not a whole manifest"),
        (lambda folder: link(folder / "weights"), "weights is a link"),
        (lambda folder: link(folder / MANIFEST_FILE), "is a link"),
        (lambda folder: link(folder / "part"), "part is a link"),
        (lambda folder: replace(folder / "weights", Path.mkdir), "weights is no file"),
        (lambda folder: replace(folder / "weights", os.mkfifo), "weights is no file"),
    ],
)
def test_damage_is_named_and_quarantined(
    store: Store, tmp_path: Path, damage: Callable[[Path], object], said: str
) -> None:
    save(store, 4)
    save(store, 5)
    damage(tmp_path / "step-00000005")
    with pytest.raises(DamagedError, match=said) as caught:
        store.verify(5)
    assert not isinstance(caught.value, MissingError)
    assert store.quarantine(5, caught.value) == "quarantine/step-00000005.1"
    assert store.steps() == [4]
    store.verify(4)
    report = json.loads((tmp_path / "quarantine/step-00000005.1/report.json").read_text())
    assert report["step"] == 5 and said in report["why"] and report["file"]
    assert report["who"]["pid"] == os.getpid() and report["when"]
    store.clean()
    assert (tmp_path / "quarantine/step-00000005.1/report.json").exists()


def link(path: Path) -> None:
    """To the very same content, elsewhere."""
    away = path.parents[1] / f"{path.name}-elsewhere"
    path.rename(away)
    path.symlink_to(away)


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def test_a_read_error_of_the_disk_is_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, 5)

    def fail(name: str, number: int) -> None:
        raise OSError(number, os.strerror(number), name)

    monkeypatch.setattr(store.place, "checksum", lambda name: fail(name, errno.EIO))
    with pytest.raises(DamagedError, match="weights cannot be read: Input/output error"):
        store.verify(5)
    # No checkpoint's fault: it must not be set aside for it.
    monkeypatch.setattr(store.place, "checksum", lambda name: fail(name, errno.EACCES))
    with pytest.raises(PermissionError):
        store.verify(5)


def test_a_missing_file_is_no_certain_damage(store: Store, tmp_path: Path) -> None:
    """Files may be restored in any order: it may only not have come yet."""
    save(store, 4)
    save(store, 5)
    (tmp_path / "step-00000005/weights").rename(tmp_path / "late")
    fresh = Store(FolderPlace(tmp_path))
    with pytest.raises(MissingError, match="step-00000005/weights is not there"):
        fresh.verify(5)
    assert fresh.steps() == [5, 4]
    fresh.verify(4)
    assert fresh.clean() == [] and fresh.retain(Retention(last=1)) == []
    (tmp_path / "late").rename(tmp_path / "step-00000005/weights")
    fresh.verify(5)


def test_an_incomplete_checkpoint_is_removed_once_a_newer_one_is_good(store: Store, tmp_path: Path) -> None:
    for step in (4, 5):
        save(store, step)
    (tmp_path / "step-00000005/weights").unlink()
    fresh = Store(FolderPlace(tmp_path))
    save(fresh, 6)
    assert fresh.retain(Retention(last=3)) == [5]
    assert fresh.steps() == [6, 4]


def test_a_full_disk_does_not_block_the_previous_checkpoint(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(store, 4)
    save(store, 5)

    def fail(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        store.quarantine(5, DamagedError("for a test"))
    assert store.steps() == [4]
    assert "the report of quarantine/step-00000005.1 could not be written" in capsys.readouterr().err


def test_quarantine_does_not_grow_for_ever(store: Store, tmp_path: Path) -> None:
    """A damaged checkpoint that comes back with each restart."""
    for _ in range(6):
        save(store, 5)
        store.quarantine(5, DamagedError("for a test"))
    assert sorted(path.name for path in (tmp_path / "quarantine").iterdir()) == [
        f"step-00000005.{n}" for n in (4, 5, 6)
    ]


def test_only_files_of_the_checkpoint_can_be_verified(store: Store) -> None:
    save(store, 5)
    with pytest.raises(KeyError):
        store.verify(5, ["../step-00000004/weights"])
