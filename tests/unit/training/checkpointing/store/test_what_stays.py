"""What retention and cleaning remove, and what they never do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.unit.training.checkpointing.store.saved import content, flip, save


def test_retention_keeps_fallbacks(store: Store, tmp_path: Path) -> None:
    """A peer's bug: the copies to fall back to were deleted by retention, and then the newest was no good."""
    for step in range(1, 7):
        save(store, step)
        store.retain(Retention(last=3))
    assert store.steps() == [6, 5, 4]
    fresh = Store(FolderPlace(tmp_path))
    for step in (6, 5):
        flip(tmp_path / store.folder(step) / "weights")
        with pytest.raises(DamagedError) as caught:
            fresh.verify(step)
        fresh.quarantine(step, caught.value)
    fresh.verify(4)


def test_a_start_that_has_verified_nothing_removes_nothing(store: Store, tmp_path: Path) -> None:
    """A peer's bug: the old copy was pruned before the new one was good."""
    for step in range(1, 5):
        save(store, step)
    flip(tmp_path / "step-00000004/weights")
    fresh = Store(FolderPlace(tmp_path))
    assert fresh.retain(Retention(last=1)) == []
    fresh.verify(2)
    assert fresh.retain(Retention(last=1)) == [1]
    assert fresh.steps() == [4, 3, 2]


def test_one_good_file_does_not_make_a_good_checkpoint(store: Store, tmp_path: Path) -> None:
    for step in (1, 2):
        save(store, step)
    fresh = Store(FolderPlace(tmp_path))
    fresh.verify(2, ["weights"])
    assert fresh.retain(Retention(last=1)) == [] and fresh.steps() == [2, 1]


def test_incomplete_checkpoints_are_kept_while_none_is_known_good(store: Store, tmp_path: Path) -> None:
    """They may still be restored, and nobody has read the newer one yet."""
    for step in (1, 2):
        save(store, step)
    (tmp_path / "step-00000001/weights").unlink()
    fresh = Store(FolderPlace(tmp_path))
    assert fresh.retain(Retention(last=1)) == [] and fresh.steps() == [2, 1]
    fresh.verify(2)
    assert fresh.retain(Retention(last=1)) == [1]


def test_quarantined_checkpoints_do_not_count_as_good(store: Store) -> None:
    """An earlier saving of its step takes its place, which nobody has looked at."""
    save(store, 4)
    for _ in range(2):
        save(store, 5)
    store.quarantine(5, DamagedError("a test"))
    assert store.retain(Retention(last=1)) == [] and store.steps() == [5, 4]


def test_truncated_checkpoints_do_not_count_among_the_last(store: Store, tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        save(store, step)
    for step in (3, 4):
        (tmp_path / store.folder(step) / "weights").write_bytes(b"")
    fresh = Store(FolderPlace(tmp_path))
    fresh.verify(1)
    assert fresh.retain(Retention(last=2)) == []
    fresh.verify(2)
    assert fresh.retain(Retention(last=2)) == []
    assert fresh.retain(Retention(last=1)) == [1]


def test_the_manifest_goes_first(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it removes, retention leaves no checkpoint that has only a part of its files."""
    for step in (1, 2):
        save(store, step)
    removed: list[str] = []

    def unlink(path: Any, *given: Any, real: Callable[..., None] = os.unlink) -> None:
        removed.append(Path(path).relative_to(tmp_path).as_posix())
        if len(removed) > 1:
            raise KeyboardInterrupt
        real(path, *given)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "unlink", unlink)
        store.retain(Retention(last=1))
    assert removed[0] == f"step-00000001/{MANIFEST_FILE}" and store.steps() == [2]
    fresh = Store(FolderPlace(tmp_path))
    assert fresh.clean() and sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002"]


def test_checkpoints_that_are_being_read_are_kept(store: Store, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(store, step)
    with FolderPlace(tmp_path).reading("step-00000001"):
        assert store.retain(Retention(last=1)) == [2]
        store.verify(1)
    assert store.retain(Retention(last=1)) == [1]


def test_a_removed_checkpoint_restored_by_an_agent_is_removed_again(store: Store, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(store, step)
    shutil.copytree(tmp_path, tmp_path.parent / "bucket")
    store.retain(Retention(last=1))
    shutil.copytree(tmp_path.parent / "bucket", tmp_path, dirs_exist_ok=True)
    fresh = Store(FolderPlace(tmp_path))
    assert fresh.steps() == [3, 2, 1]  # whole, and worth falling back to, until the newest is known to be good
    fresh.verify(3)
    assert fresh.retain(Retention(last=1)) == [1, 2] and fresh.steps() == [3]


def test_cleaning(store: Store, tmp_path: Path) -> None:
    save(store, 5)
    before = content(tmp_path)
    rubbish = [
        "step-00000005/weights.sagemaker-uploading",
        "step-00000005/weights.sagemaker-uploaded",
        "step-00000005/part/manifest.json.0a1b2c3d.partial",
        "step-00000006/weights",
        "step-00000006/part/manifest.json",  # a file of that name is no manifest there
        "step-00000006/manifest.json.0a1b2c3d.partial",
        "step-00000007.2/weights",
        "x.sagemaker-uploading",
    ]
    others = ["lock.json.0a1b2c3d.partial", "attempts/00001.json", "notes.txt", "mine/weights.partial"]
    for name in (*rubbish, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert store.steps() == [5]
    assert sorted(store.clean()) == sorted(rubbish)
    assert content(tmp_path) == before | dict.fromkeys(others, b"x")
    assert not (tmp_path / "step-00000006").exists()
    assert store.clean() == []


def test_cleaning_leaves_an_earlier_edition_that_is_being_read(store: Store) -> None:
    first = save(store, 5)
    save(store, 5)
    with store.place.reading(first):
        assert store.clean() == []
    assert {name.partition("/")[0] for name in store.clean()} == {first}
