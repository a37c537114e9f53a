"""When a checkpoint exists, and what a save that fails leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.lock import LostLockError
from drivetrain.training.checkpointing.store.manifest import (
    MANIFEST_FILE,
    DamagedError,
    FileEntry,
    Manifest,
    MissingError,
)
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.unit.training.checkpointing.store.saved import content, save


def test_missing_files_are_not_committed(store: Store, tmp_path: Path) -> None:
    folder = store.begin(5)
    entry = FileEntry("weights", 3, store.place.write(f"{folder}/weights", b"abc"))
    with pytest.raises(MissingError, match="step-00000005/optimizer is not there"):
        store.commit(Manifest(step=5, files=(entry, FileEntry("optimizer", 1, 0))))
    with pytest.raises(DamagedError, match="3 bytes instead of 4"):
        store.commit(Manifest(step=5, files=(FileEntry("weights", 4, entry.crc32),)))
    assert store.steps() == []
    store.commit(Manifest(step=5, files=(entry,)))
    store.verify(5)


def test_a_host_commits_though_files_of_others_are_not_here(tmp_path: Path) -> None:
    store = Store(FolderPlace(tmp_path), shared=False)
    folder = store.begin(5)
    own = FileEntry("rank-00000", 3, store.place.write(f"{folder}/rank-00000", b"abc"))
    store.commit(Manifest(step=5, files=(own, FileEntry("rank-00001", 9, 1))))
    store.verify(5, ["rank-00000"])
    with pytest.raises(MissingError, match="rank-00001"):
        store.verify(5)
    for step in (6, 7):
        folder = store.begin(step)
        own = FileEntry("rank-00000", 3, store.place.write(f"{folder}/rank-00000", b"abc"))
        store.commit(Manifest(step=step, files=(own, FileEntry("rank-00001", 9, 1))))
    assert store.retain(Retention(last=2)) == [5]  # what is missing here is no sign of damage


def test_every_file_is_durable_before_the_manifest_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer's bug: the latest pointer was moved before the data was durable."""
    calls: list[str] = []
    synced: dict[int, str] = {}

    def opened(path: Any, *given: Any, real: Callable[..., int] = os.open) -> int:
        descriptor = real(path, *given)
        synced[descriptor] = Path(path).name
        return descriptor

    def fsync(descriptor: int, real: Callable[[int], None] = os.fsync) -> None:
        real(descriptor)
        calls.append(f"fsync {synced[descriptor]}")

    def link(source: Any, target: Any, *, real: Callable[..., None] = os.link, **named: Any) -> None:
        calls.append(f"link {Path(target).name}")
        real(source, target, **named)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    save(store, 1)
    at = calls.index(f"link {MANIFEST_FILE}")
    before, after = calls[:at], calls[at + 1 :]
    assert {"fsync weights", "fsync optimizer", "fsync part", "fsync step-00000001"} <= set(before)
    assert before[-1].startswith(f"fsync {MANIFEST_FILE}.")
    assert after == ["fsync step-00000001"]


class LostWhileItLooks(FolderPlace):
    """Another training takes it over while the files of a checkpoint are listed, and `check` says so from then on."""

    term, is_lost = 0, False

    def names(self, below: str = "") -> dict[str, int]:
        found = super().names(below)
        self.is_lost = self.is_lost or bool(below)
        return found

    def check(self) -> None:
        if self.is_lost:
            raise LostLockError


def test_the_lock_is_checked_just_before_the_manifest(tmp_path: Path) -> None:
    place = LostWhileItLooks(tmp_path)
    with pytest.raises(LostLockError):
        save(Store(place, fence=place), 5)
    assert place.is_lost and not (tmp_path / "step-00000005" / MANIFEST_FILE).exists()


def test_a_lost_lock_is_reported_instead_of_lost_files(tmp_path: Path) -> None:
    """Whoever takes a place over removes what is not committed."""
    place = LostWhileItLooks(tmp_path)
    store = Store(place, fence=place)
    store.begin(5)
    place.is_lost = True
    with pytest.raises(LostLockError):
        store.commit(Manifest(step=5, files=(FileEntry("weights", 3, 0),)))


def test_the_former_holder_of_a_lock_removes_nothing(tmp_path: Path) -> None:
    """What lies there of the step is perhaps just being written, by whoever has taken the place over."""
    place = LostWhileItLooks(tmp_path)
    store = Store(place, fence=place)
    place.write("step-00000005.101/weights", b"x")
    place.is_lost = True
    with pytest.raises(LostLockError):
        store.begin(5)
    assert place.names() == {"step-00000005.101/weights": 1}


def test_a_possible_commit_is_abandoned_manifest_first(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit whose outcome is unknown: killed in between, no manifest is left that lacks files."""
    folder = store.begin(5)
    for name in ("index.json", MANIFEST_FILE, "weights"):
        store.place.write(f"{folder}/{name}", b"x")
    removed: list[str] = []

    def unlink(path: Any, *given: Any, real: Callable[..., None] = os.unlink) -> None:
        removed.append(Path(path).name)
        real(path, *given)

    monkeypatch.setattr(os, "unlink", unlink)
    store.abandon(5)
    assert removed[0] == MANIFEST_FILE and list(tmp_path.iterdir()) == []


def test_an_interrupted_save_leaves_nothing_for_the_next(store: Store, tmp_path: Path) -> None:
    folder = store.begin(5)
    store.place.write(f"{folder}/rank-00001", b"of another world size")
    again = Store(FolderPlace(tmp_path))
    assert save(again, 5) == folder
    assert sorted(content(tmp_path / folder)) == [MANIFEST_FILE, "part/optimizer", "weights"]


def test_abandoning(store: Store, tmp_path: Path) -> None:
    save(store, 4)
    folder = store.begin(5)
    store.place.write(f"{folder}/weights", b"abc")
    store.abandon(5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000004"]
    store.abandon(5)
    store.abandon(4)  # committed: not what was begun
    store.verify(4)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_says_so_and_harms_nothing(
    store: Store, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 4)
    before = content(tmp_path)

    def fail(descriptor: int, data: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        with pytest.raises(OSError, match=os.strerror(number)):
            save(store, 5)
    assert content(tmp_path) == before
    save(store, 5)
    assert store.steps() == [5, 4]


def link(path: Path) -> None:
    """To the very same content, elsewhere."""
    away = path.parents[1] / f"{path.name}-elsewhere"
    path.rename(away)
    path.symlink_to(away)
