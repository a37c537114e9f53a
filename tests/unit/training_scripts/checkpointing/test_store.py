"""What the store adds to a place; tests/contract/test_places.py has what holds for every kind of place."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training_scripts.checkpointing.manifest import (
    MANIFEST_FILE,
    DamagedError,
    FileEntry,
    Manifest,
    MissingError,
)
from drivetrain.training_scripts.checkpointing.places.folder import FolderPlace
from drivetrain.training_scripts.checkpointing.retention import Retention
from drivetrain.training_scripts.checkpointing.store import Store, folders_of


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(FolderPlace(tmp_path))


def save(store: Store, step: int, values: dict[str, Any] | None = None, *, content: bytes = b"") -> str:
    folder = store.begin(step)
    files = {"weights": content or b"%d" % step * 1000, "part/optimizer": b"%d" % -step * 10}
    entries = tuple(
        FileEntry(name, len(data), store.place.write(f"{folder}/{name}", data)) for name, data in files.items()
    )
    store.commit(Manifest(step=step, files=entries, values=values or {}))
    return folder


def content(path: Path) -> dict[str, bytes]:
    return {found.relative_to(path).as_posix(): found.read_bytes() for found in path.rglob("*") if found.is_file()}


# -- by step


def test_steps_are_found_by_number(store: Store, tmp_path: Path) -> None:
    """Neither by the order of names, where 9 comes after 12, nor by the time of a file."""
    for number, step in enumerate((12, 100_000_000, 9, 10)):
        save(store, step)
        os.utime(tmp_path / store.folder(step), (number, number))
    assert store.steps() == [100_000_000, 12, 10, 9]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "step-9",
            "step-00000009x",
            "xstep-00000009",
            "step-00000009.0",
            "step-00000009.01",
            "step-00000009.",
            "step-",
        ),
        *("step--0000009", "step-٠٠٠٠٠٠٠٩", "step-00000009.sagemaker-uploading", "best", "step-0000000000000000009"),
    ],
)
def test_other_folders_are_left_alone(store: Store, tmp_path: Path, name: str) -> None:
    save(store, 9)
    os.rename(tmp_path / "step-00000009", tmp_path / name)
    assert store.steps() == []
    store.clean()
    assert (tmp_path / name / MANIFEST_FILE).exists()


def test_a_folder_under_another_steps_name_is_damaged(store: Store, tmp_path: Path) -> None:
    """Somebody copied an old checkpoint over to where a newer one is looked for."""
    save(store, 3)
    shutil.copytree(tmp_path / "step-00000003", tmp_path / "step-00000099")
    with pytest.raises(DamagedError, match="step-00000099 holds the manifest of step 3") as caught:
        store.verify(99)
    store.quarantine(99, caught.value)
    assert store.steps() == [3]


# -- the same step again


def test_a_step_saved_again_replaces_the_first_only_when_it_is_committed(store: Store, tmp_path: Path) -> None:
    """A peer's bug: the old copy was pruned before the new one was good."""
    first = save(store, 5, {"finished": False})
    second = store.begin(5)
    assert second != first and store.folder(5) == first
    entry = FileEntry("weights", 1, store.place.write(f"{second}/weights", b"x"))
    store.verify(5)
    store.commit(Manifest(step=5, files=(entry,), values={"finished": True}))
    assert store.folder(5) == second and store.manifest(5).values == {"finished": True}
    assert store.steps() == [5]
    store.verify(5)
    store.retain(Retention(last=1))
    assert [path.name for path in tmp_path.iterdir()] == [second]


def test_a_step_saved_again_that_is_damaged_leaves_the_first(store: Store, tmp_path: Path) -> None:
    save(store, 5, {"finished": False})
    second = save(store, 5, {"finished": True})
    (tmp_path / second / "weights").write_bytes(b"")
    with pytest.raises(DamagedError) as caught:
        store.verify(5)
    store.quarantine(5, caught.value)
    store.verify(5)
    assert store.manifest(5).values == {"finished": False}


def test_editions_are_ordered_by_number(store: Store) -> None:
    folders = [save(store, 5, {"edition": number}) for number in range(12)]
    assert folders[0] == "step-00000005" and folders[-1] == "step-00000005.12"
    assert store.folder(5) == folders[-1] and store.manifest(5).values == {"edition": 11}
    cleaned = store.clean()
    assert {name.partition("/")[0] for name in cleaned} == set(folders[:-1])


def test_folders_of_a_step_come_in_the_order_of_their_numbers() -> None:
    """A host that lacks the manifest takes the last one, which is that of the highest number, and not .9 of .101."""
    folders = ["step-00000005", "step-00000005.9", "step-00000005.12", "step-00000005.101"]
    others = ["step-00000050.9/weights", "step-00000005.0/weights", "step-00000005.200", "quarantine/step-00000005.3/w"]
    assert folders_of(5, [*(f"{folder}/{file}" for folder in reversed(folders) for file in "ab"), *others]) == folders


# -- commits


def test_nothing_is_committed_that_is_not_there(store: Store, tmp_path: Path) -> None:
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


# -- damage


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
def test_damage_is_named_and_set_aside(
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


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def link(path: Path) -> None:
    """To the very same content, elsewhere."""
    away = path.parents[1] / f"{path.name}-elsewhere"
    path.rename(away)
    path.symlink_to(away)


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def test_a_disk_that_says_itself_that_it_is_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_never_came_goes_when_a_newer_one_is_good(store: Store, tmp_path: Path) -> None:
    for step in (4, 5):
        save(store, step)
    (tmp_path / "step-00000005/weights").unlink()
    fresh = Store(FolderPlace(tmp_path))
    save(fresh, 6)
    assert fresh.retain(Retention(last=3)) == [5]
    assert fresh.steps() == [6, 4]


def test_a_full_disk_does_not_stand_between_a_training_and_the_checkpoint_before(
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


# -- what stays


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


def test_what_looks_cut_off_does_not_count_among_the_last(store: Store, tmp_path: Path) -> None:
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


def test_what_is_being_read_stays(store: Store, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(store, step)
    with FolderPlace(tmp_path).reading("step-00000001"):
        assert store.retain(Retention(last=1)) == [2]
        store.verify(1)
    assert store.retain(Retention(last=1)) == [1]


def test_what_retention_removed_and_a_sync_agent_brought_back_goes_again(store: Store, tmp_path: Path) -> None:
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
