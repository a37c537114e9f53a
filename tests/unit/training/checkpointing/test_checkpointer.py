from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.training.checkpointing.checkpointer import Checkpointer, CheckpointOptions
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.lock import LostLockError
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.launch.processes import heartbeat
from drivetrain.training.torch.checkpoints.state import tensors_of
from drivetrain.training.torch.strategy import Strategy
from tests.fixtures.single_strategy import ALONE, build, step


def save(folder: Path, *steps: int, **options: Any) -> Strategy:
    strategy = build()
    with Checkpointer(FolderPlace(folder), ALONE, options=CheckpointOptions(**options)) as checkpoints:
        for number in steps:
            step(strategy)
            checkpoints.save(number, {"step": number}, strategy)
            assert checkpoints.wait()
    return strategy


def load(folder: Path, strategy: Strategy | None = None, **options: Any) -> dict[str, Any] | None:
    with Checkpointer(FolderPlace(folder), ALONE, options=CheckpointOptions(**options)) as checkpoints:
        return checkpoints.load_newest(strategy or build())


def newest_step(folder: Path) -> int | None:
    found = load(folder)
    return found["step"] if found else None


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_without_checkpoints_the_strategy_is_unchanged(tmp_path: Path) -> None:
    strategy = build()
    before = {name: tensor.detach().clone() for name, tensor in tensors_of(strategy).items()}
    assert load(tmp_path / "not/there/yet", strategy) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors_of(strategy).items())


@pytest.mark.parametrize("asynchronous", [True, False])
def test_round_trip(asynchronous: bool, tmp_path: Path) -> None:
    saved = save(tmp_path, 5, asynchronous=asynchronous)
    strategy = build()
    found = load(tmp_path, strategy)
    assert found is not None
    assert found["step"] == 5
    loaded = tensors_of(strategy)
    assert loaded.keys() == tensors_of(saved).keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors_of(saved).items())


def test_the_content_of_the_manifest(tmp_path: Path) -> None:
    strategy = build()
    step(strategy)
    with Checkpointer(FolderPlace(tmp_path), ALONE) as checkpoints:
        values = {"step": 1, "epoch": 0, "consumed": 5, "config": {"seed": 0}}
        checkpoints.save(1, values, strategy, metrics={"loss": 0.5}, finished=True)
        assert checkpoints.wait()
        assert checkpoints.stall_seconds > 0
        assert checkpoints.durable_seconds > 0
        found = checkpoints.store.manifest(1)
    said = dict(found.values)
    assert said.pop("save_seconds") >= 0
    assert said.pop("saved_at").startswith("20")
    assert said == {
        "epoch": 0,
        "consumed": 5,
        "world_size": 1,
        "folders": 1,
        "strategy": {"name": "single"},
        "config": {"seed": 0},
        "metrics": {"loss": 0.5},
        "finished": True,
    }


def test_only_the_last_ones_stay(tmp_path: Path) -> None:
    save(tmp_path, 8, 9, 10, 11, 12, retention=Retention(last=2))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-00000011", "step-00000012"]


def test_an_entry_that_an_optimizer_makes_later(tmp_path: Path) -> None:
    """The plan of the first save does not know it."""
    strategy = build()
    with Checkpointer(FolderPlace(tmp_path), ALONE) as checkpoints:
        checkpoints.save(1, {"step": 1}, strategy)  # before the first step: no state at all
        step(strategy)
        checkpoints.save(2, {"step": 2}, strategy)
        next(iter(strategy.optimizer.state.values()))["extra"] = torch.arange(3.0)
        checkpoints.save(3, {"step": 3}, strategy)
        checkpoints.save(4, {"step": 4}, strategy, best={"0.weight": torch.ones(2)})
    other = build()
    with Checkpointer(FolderPlace(tmp_path), ALONE) as checkpoints:
        checkpoints.store.quarantine(4, _why())
        assert checkpoints.load_newest(other)
    assert torch.equal(next(iter(other.optimizer.state.values()))["extra"], torch.arange(3.0))


def _why() -> Any:
    from drivetrain.training.checkpointing.store.manifest import DamagedError

    return DamagedError("for the test")


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "rank-00000-of-00001.safetensors"),
        lambda folder: flip(folder / "state.json"),
        lambda folder: flip(folder / "index.json"),
        lambda folder: flip(folder / "manifest.json"),
        lambda folder: (folder / "rank-00000-of-00001.safetensors").unlink(),
        lambda folder: (folder / "rank-00000-of-00001.safetensors").write_bytes(b""),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{}"),
        lambda folder: folder.rename(folder.with_name("step-00000099")),
        lambda folder: folder.rename(folder.with_name(folder.name + ".sagemaker-uploading")),
    ],
)
def test_an_older_checkpoint_replaces_a_damaged_one(damage: Callable[[Path], object], tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    damage(tmp_path / "step-00000002")
    assert newest_step(tmp_path) == 1
    save(tmp_path, 2)  # and does not stand in the way of the next
    assert newest_step(tmp_path) == 2


def test_a_file_that_no_rank_needs_is_checked_too(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    folder = tmp_path / "step-00000002"
    (folder / "notes").write_bytes(b"written by somebody else")
    manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    notes = FileEntry("notes", 24, zlib.crc32(b"written by somebody else"))
    (folder / "manifest.json").write_bytes(replace(manifest, files=(*manifest.files, notes)).to_bytes())
    assert newest_step(tmp_path) == 2
    flip(folder / "notes")
    assert newest_step(tmp_path) == 1


def test_without_a_complete_checkpoint_training_starts_fresh_with_a_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1)
    flip(tmp_path / "step-00000001/rank-00000-of-00001.safetensors")
    strategy = build()
    before = {name: tensor.detach().clone() for name, tensor in tensors_of(strategy).items()}
    assert load(tmp_path, strategy) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors_of(strategy).items())
    report = json.loads((tmp_path / "quarantine/step-00000001.1/report.json").read_text())
    assert report["file"] == "rank-00000-of-00001.safetensors"
    assert report["expected"] != report["found"]
    assert "is damaged: rank-00000-of-00001.safetensors differs from its checksum" in capfd.readouterr().out


@pytest.mark.parametrize("file", ["rank-00000-of-00001.safetensors", "state.json", "index.json", "manifest.json"])
@pytest.mark.parametrize("way", ["short", "link"])
def test_the_report_names_a_file_as_the_manifest_does(file: str, way: str, tmp_path: Path) -> None:
    save(tmp_path / "kept", 1, 2)
    path = tmp_path / "kept/step-00000002" / file
    if way == "short":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.symlink_to(path.rename(tmp_path / "elsewhere"))
    assert newest_step(tmp_path / "kept") == 1
    assert json.loads((tmp_path / "kept/quarantine/step-00000002.1/report.json").read_text())["file"] == file


def test_a_changed_training_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    save(tmp_path, 1)
    strategy = build()
    before = {name: tensor.detach().clone() for name, tensor in tensors_of(strategy).items()}

    def check(values: dict[str, Any]) -> None:
        raise InputError(f"not this one: {values['step']}")

    with (
        Checkpointer(FolderPlace(tmp_path), ALONE) as checkpoints,
        pytest.raises(InputError, match="not this one: 1"),
    ):
        checkpoints.load_newest(strategy, check=check)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors_of(strategy).items())
    assert newest_step(tmp_path) == 1  # it is not taken for damaged


def test_another_model_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    other = build(channels=3)
    with pytest.raises(InputError, match="is of shape"):
        load(tmp_path, other)


class Poison:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("vouched", [False, True], ids=["altered", "vouched"])
@pytest.mark.parametrize("file", ["rank-00000-of-00001.safetensors", "state.json", "index.json", "manifest.json"])
def test_a_pickle_in_the_place_of_a_file_runs_nothing(file: str, vouched: bool, tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    poison = pickle.dumps(Poison(mark))
    folder = tmp_path / "kept"
    save(folder, 1)
    path = folder / "step-00000001" / file
    told = Manifest.from_bytes((path.parent / "manifest.json").read_bytes())
    path.write_bytes(poison.ljust(path.stat().st_size, b"\0"))
    (path.parent / ".metadata").write_bytes(poison)
    if vouched and file != "manifest.json":
        data = path.read_bytes()
        files = tuple(FileEntry(f.name, len(data), zlib.crc32(data)) if f.name == file else f for f in told.files)
        (path.parent / "manifest.json").write_bytes(replace(told, files=files).to_bytes())
    with suppress(InputError):  # numbers that are none, where a manifest vouches for them
        load(folder)
    assert not mark.exists()
    pickle.loads(poison)
    assert mark.exists()  # it would have


class BrokenPlace(FolderPlace):
    """Fails with `error` when a file whose name ends with `on` is written."""

    on, error = "", errno.ENOSPC

    def write(self, name: str, data: memoryview | bytes) -> int:
        self._fail(name)
        return super().write(name, data)

    def create(self, name: str, data: bytes) -> None:
        self._fail(name)
        super().create(name, data)

    def _fail(self, name: str) -> None:
        if self.on and name.endswith(self.on):
            raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("on", [".safetensors", "index.json", "state.json", "manifest.json"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_save_is_reported_once_and_training_continues(on: str, error: int, tmp_path: Path) -> None:
    place, lines = BrokenPlace(tmp_path), []
    strategy = build()
    step(strategy)
    with Checkpointer(place, ALONE, say=lines.append) as checkpoints:
        checkpoints.save(1, {"step": 1}, strategy)
        assert checkpoints.wait()
        place.on, place.error = on, error
        checkpoints.save(2, {"step": 2}, strategy)
        assert not checkpoints.wait()
        assert not checkpoints.wait()
        place.on = ""
        assert newest_of(checkpoints) == [1]
        checkpoints.save(3, {"step": 3}, strategy)
        assert checkpoints.wait()
        assert newest_of(checkpoints) == [3, 1]
    (line,) = lines
    assert line.startswith(f"checkpoint 2 could not be saved: [Errno {error}] {os.strerror(error)}")


class SmallPlace(FolderPlace):
    """Has room for `room` bytes."""

    room = 0

    def write(self, name: str, data: memoryview | bytes) -> int:
        if sum(self.names().values()) + len(data) > self.room:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return super().write(name, data)


def test_a_disk_for_fewer_than_are_to_be_kept_keeps_the_newest(tmp_path: Path) -> None:
    """(It kept the oldest ones, and no other, until it was tended.)"""
    place, lines = SmallPlace(tmp_path), []
    place.room = 10**9
    strategy = build()
    step(strategy)
    options = CheckpointOptions(retention=Retention(last=3, best=1, metric="score", greater_is_better=True))
    with Checkpointer(place, ALONE, options=options, say=lines.append) as checkpoints:
        for number in range(1, 7):
            checkpoints.save(number, {"step": number}, strategy, metrics={"score": 1.0 / number})
            assert checkpoints.wait()
            if number == 3:
                assert newest_of(checkpoints) == [3, 2, 1] and lines == []
                place.room = sum(place.names().values()) + 500
        assert newest_of(checkpoints) == [6, 5, 1]  # the first is the best
        advice = "which keep_last=3 would keep. Free some, or keep fewer."
        removed = [f"no room for checkpoint {new}: removed what was of step {new - 2}, {advice}" for new in (4, 5, 6)]
        assert lines == removed
        place.room = 0
        checkpoints.save(7, {"step": 7}, strategy)
        assert not checkpoints.wait()
        assert newest_of(checkpoints) == [6, 1]
    assert newest_step(tmp_path) == 6
    assert lines[-1].startswith("checkpoint 7 could not be saved: [Errno 122]")


def newest_of(checkpoints: Checkpointer) -> list[int]:
    return checkpoints.store.steps()


def test_a_training_that_lost_its_lock_stops(tmp_path: Path) -> None:
    strategy = build()
    checkpoints = Checkpointer(FolderPlace(tmp_path), ALONE)
    lock = json.loads((tmp_path / "lock.json").read_text())
    (tmp_path / "lock.json").write_text(json.dumps(lock | {"id": "another"}))
    checkpoints.save(1, {"step": 1}, strategy)
    with pytest.raises(RuntimeError, match="no more checkpoints can be saved") as refused:
        checkpoints.close()
    assert isinstance(refused.value.__cause__, LostLockError)
    assert not (tmp_path / "step-00000001/manifest.json").exists()


def test_values_that_no_json_holds_are_refused_at_once(tmp_path: Path) -> None:
    with Checkpointer(FolderPlace(tmp_path), ALONE) as checkpoints, pytest.raises(ValueError, match="JSON"):
        checkpoints.save(1, {"loss": float("nan")}, build())


def test_a_save_waits_for_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are copied into the same memory."""
    gate = threading.Event()
    monkeypatch.setattr("drivetrain.training.checkpointing.checkpointer.beat", gate.set)

    class SlowPlace(FolderPlace):
        def write(self, name: str, data: memoryview | bytes) -> int:
            assert gate.wait(30)
            return super().write(name, data)

    strategy, other = build(), build()
    with Checkpointer(SlowPlace(tmp_path), ALONE) as checkpoints:
        step(strategy)
        first = {name: tensor.detach().clone() for name, tensor in tensors_of(strategy).items()}
        checkpoints.save(1, {"step": 1}, strategy)
        step(strategy)
        checkpoints.save(2, {"step": 2}, strategy)
        checkpoints.wait()
        checkpoints.store.quarantine(2, _why())
        assert checkpoints.load_newest(other)
    assert all(torch.equal(tensor, first[name]) for name, tensor in tensors_of(other).items())


def test_values_may_change_as_soon_as_save_returns(tmp_path: Path) -> None:
    gate = threading.Event()

    class SlowPlace(FolderPlace):
        def write(self, name: str, data: memoryview | bytes) -> int:
            assert gate.wait(30)
            return super().write(name, data)

    history = [{"step": 1}]
    with Checkpointer(SlowPlace(tmp_path), ALONE) as checkpoints:
        checkpoints.save(1, {"step": 1, "history": history}, build())
        history[0]["step"] = 2
        history.append({"step": 3})
        gate.set()
    found = load(tmp_path)
    assert found is not None and found["history"] == [{"step": 1}]


def test_a_training_that_fails_waits_a_little_for_what_is_being_written(tmp_path: Path) -> None:
    gate = threading.Event()

    class SlowPlace(FolderPlace):
        def write(self, name: str, data: memoryview | bytes) -> int:
            assert gate.wait(30)
            return super().write(name, data)

    class Opened(Checkpointer):
        def __exit__(self, *error: Any) -> None:
            gate.set()
            super().__exit__(*error)

    with pytest.raises(KeyError), Opened(SlowPlace(tmp_path), ALONE) as checkpoints:
        checkpoints.save(1, {"step": 1}, build())
        raise KeyError("an error of the training")
    assert json.loads((tmp_path / "lock.json").read_text())["released"]
    assert newest_step(tmp_path) == 1


def test_the_place_is_free_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with Checkpointer(FolderPlace(tmp_path), ALONE):
            pass
    with pytest.raises(KeyError), Checkpointer(FolderPlace(tmp_path), ALONE):
        raise KeyError("an error of the training")
    Checkpointer(FolderPlace(tmp_path), ALONE).close()


def test_leftovers_of_an_interrupted_save_are_removed(tmp_path: Path) -> None:
    save(tmp_path, 1)
    torn = tmp_path / "step-00000002"
    shutil.copytree(tmp_path / "step-00000001", torn)
    (torn / "manifest.json").unlink()
    (tmp_path / "step-00000001/state.json.sagemaker-uploading").write_text("")
    assert newest_step(tmp_path) == 1
    assert not torn.exists()
    assert not list(tmp_path.rglob("*.sagemaker-uploading"))


def test_long_waits_are_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, counted = threading.Event(), []

    class SlowPlace(FolderPlace):
        def write(self, name: str, data: memoryview | bytes) -> int:
            assert gate.wait(30)
            return super().write(name, data)

    def beat() -> None:
        counted.append(1)
        if len(counted) == 3:
            gate.set()

    monkeypatch.setattr("drivetrain.training.checkpointing.checkpointer.beat", beat)
    assert heartbeat.beat is not beat
    with Checkpointer(SlowPlace(tmp_path), ALONE) as checkpoints:
        checkpoints.save(1, {"step": 1}, build())
        assert checkpoints.wait()
    assert len(counted) >= 3


def test_an_immovable_damaged_checkpoint_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A folder of quarantine takes room, and a disk may be full."""
    save(tmp_path, 1, 2)
    flip(tmp_path / "step-00000002/rank-00000-of-00001.safetensors")

    def full(self: FolderPlace, folder: str, to: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(FolderPlace, "move", full)
        assert newest_step(tmp_path) == 1
    assert "stays there, as it cannot be moved: [Errno 28] No space left on device" in capfd.readouterr().out
    save(tmp_path, 2)
    assert newest_step(tmp_path) == 2


def test_old_files_that_cannot_be_removed_end_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1)
    (tmp_path / "step-00000001/state.json.sagemaker-uploading").write_text("")

    def anothers(self: FolderPlace, names: list[str]) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), names[0])

    monkeypatch.setattr(FolderPlace, "remove", anothers)
    assert newest_step(tmp_path) == 1
    assert f"old files stay in {tmp_path}: [Errno 13] Permission denied" in capfd.readouterr().out


def test_a_place_that_cannot_be_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/lock.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"lock\.json is a link"):
        Checkpointer(FolderPlace(tmp_path / "linked"), ALONE)

    def read_only(self: FolderPlace, name: str, data: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)

    monkeypatch.setattr(FolderPlace, "create", read_only)
    with pytest.raises(InputError, match=r"cannot keep checkpoints: .*Read-only file system.*Give a place that can"):
        Checkpointer(FolderPlace(tmp_path / "other"), ALONE)


@pytest.mark.parametrize("method", ["create", "swap", "names", "read"])
def test_a_place_that_is_away_is_no_bad_input(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the lock is taken, and while the newest checkpoint is looked for: no older one is gone on from."""
    save(tmp_path, 1)
    save(tmp_path, 2)
    right = getattr(FolderPlace, method)

    def away(self: FolderPlace, name: str = "", *rest: Any) -> Any:
        if method == "read" and "step-00000002" not in name:
            return right(self, name, *rest)
        raise AwayError(f"no {method}: given up after 120.0 s")

    if method == "create":
        (tmp_path / "lock.json").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(FolderPlace, method, away)
        with pytest.raises(AwayError, match=rf"^no {method}: given up after 120\.0 s$"):
            newest_step(tmp_path)
    assert newest_step(tmp_path) == 2


def test_a_cpu_checkpoint_resumes_on_a_gpu(tmp_path: Path) -> None:
    save(tmp_path, 1)
    lines: list[str] = []
    on_gpu = replace(ALONE, device=torch.device("cuda"))
    with Checkpointer(FolderPlace(tmp_path), on_gpu, say=lines.append) as checkpoints:
        assert checkpoints.load_newest(build())
    assert "random numbers of the GPU start anew: the checkpoint is of processes without one" in lines
