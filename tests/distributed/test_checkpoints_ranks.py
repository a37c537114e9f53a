"""Ranks that save and load together: one of them fails, is lost, has a folder of its own, or other random numbers."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.checkpointer import Checkpointer, CheckpointOptions
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.group import Group
from drivetrain.training.process import Process
from drivetrain.training.torch.checkpoints.state import model_parts, tensors_of
from drivetrain.training.torch.parallel.sharded import local
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build, go_on, whole_state

DDP, FSDP = Run("ddp", 2), Run("fsdp", 2)
DDP_FIRST = [pytest.param(DDP, id=DDP.id), pytest.param(FSDP, id=FSDP.id, marks=pytest.mark.slow)]
SETTING = Setting(kind="conv", steps=1)


class FailingPlace(FolderPlace):
    """Its disk is full while `full`; writing waits for `gate`."""

    full = False
    gate: threading.Event | None = None

    def write(self, name: str, data: memoryview | bytes) -> int:
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(name, data)


def save(process: Process, run: Run, folders: list[Path], steps: list[int]) -> Any:
    """Train and save after each step, each rank into its own folder; the whole state after the last one."""
    strategy = build(process, run, SETTING)
    with Checkpointer(FolderPlace(folders[process.rank]), process) as checkpoints:
        for step in steps:
            go_on(strategy, SETTING)
            checkpoints.save(step, {"step": step}, strategy)
            assert checkpoints.wait()
    return whole_state(strategy)[:3]


def load(process: Process, run: Run, folders: list[Path]) -> Any:
    """Step and whole state of what is loaded, what was said, and how a refusal reads."""
    lines: list[str] = []
    strategy = build(process, run, SETTING)
    try:
        with Checkpointer(FolderPlace(folders[process.rank]), process, say=lines.append) as checkpoints:
            values = checkpoints.load_newest(strategy)
    except InputError as refused:
        return None, None, lines, str(refused)
    return (values or {}).get("step"), whole_state(strategy)[:3], lines, ""


def equal(one: Any, other: Any) -> bool:
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def full_disk(process: Process, folder: Path) -> list[Any]:
    place, lines = FailingPlace(folder), []
    strategy = build(process, DDP, SETTING)
    went_well = []
    with Checkpointer(place, process, say=lines.append) as checkpoints:
        for step in (1, 2, 3):
            go_on(strategy, SETTING)
            place.full = process.rank == 1 and step == 2
            checkpoints.save(step, {"step": step}, strategy)
            went_well.append(checkpoints.wait())
            process.barrier()
            went_well.append(checkpoints.store.steps())
            process.barrier()
    return [went_well, lines]


def test_a_full_disk_of_one_rank_costs_one_checkpoint(pooled: Any, tmp_path: Path) -> None:
    first, second = pooled(2, full_disk, tmp_path)
    assert first[0] == second[0] == [True, [1], False, [1], True, [3, 1]]
    (line,) = first[1]
    assert line == (
        "checkpoint 2 could not be saved: rank 1: [Errno 28] No space left on device. Training continues; the one "
        "before it remains."
    )
    assert second[1] == []
    assert not list(tmp_path.glob("step-00000002*"))  # what was written of it is not left on a full disk


class DyingPlace(FolderPlace):
    def write(self, name: str, data: memoryview | bytes) -> int:
        os._exit(9)


def lose_a_peer(process: Process, folder: Path) -> Any:
    strategy = build(process, DDP, SETTING)
    go_on(strategy, SETTING)
    place = DyingPlace(folder) if process.rank == 1 else FolderPlace(folder)
    checkpoints = Checkpointer(place, process)
    checkpoints.save(1, {}, strategy)
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="no more checkpoints can be saved"):
        checkpoints.wait()
    return time.monotonic() - started, checkpoints.store.steps()


def test_a_peer_that_dies_while_writing_does_not_hang_others(forked: Any, tmp_path: Path) -> None:
    seconds, steps = forked(2, lose_a_peer, tmp_path, may_die=(1,))[0]
    assert seconds < 10 + 10
    assert steps == []


def change_at_once(process: Process, run: Run, folder: Path) -> Any:
    """Save, and train on before anything is written; the state when save returned."""
    place = FailingPlace(folder)
    strategy = build(process, run, SETTING)
    go_on(strategy, SETTING)
    with Checkpointer(place, process) as checkpoints:
        place.gate = threading.Event()
        checkpoints.save(1, {"step": 1}, strategy)
        saved = whole_state(strategy)[:3]
        go_on(strategy, SETTING)
        changed = whole_state(strategy)[:3]
        place.gate.set()
        assert checkpoints.wait()
    return saved, changed


@pytest.mark.parametrize("run", DDP_FIRST)
def test_weights_may_change_as_soon_as_save_returns(run: Run, pooled: Any, tmp_path: Path) -> None:
    """(A peer's asynchronous save wrote what training was changing: two steps in one checkpoint.)"""
    saved, changed = pooled(2, change_at_once, run, tmp_path)[0]
    step, loaded, _, _ = pooled(2, load, run, [tmp_path] * 2)[0]
    assert step == 1
    assert equal(loaded, saved)
    assert not equal(loaded, changed)


def save_again(process: Process, folder: Path) -> Any:
    """The same step a second time, of which a rank's part cannot be written."""
    place = FailingPlace(folder)
    strategy = build(process, FSDP, SETTING)
    go_on(strategy, SETTING)
    with Checkpointer(place, process) as checkpoints:
        checkpoints.save(1, {"step": 1}, strategy)
        first = whole_state(strategy)[:3]
        checkpoints.wait()
        go_on(strategy, SETTING)
        place.full = process.rank == 1
        checkpoints.save(1, {"step": 1}, strategy)
        assert not checkpoints.wait()
    return first


@pytest.mark.slow
def test_a_step_saved_again_never_mixes_with_the_first(pooled: Any, tmp_path: Path) -> None:
    first = pooled(2, save_again, tmp_path)[0]
    step, loaded, _, _ = pooled(2, load, FSDP, [tmp_path] * 2)[0]
    assert step == 1
    assert equal(loaded, first)


@pytest.mark.slow
def test_a_flipped_bit_seen_by_one_rank_counts_for_all(pooled: Any, tmp_path: Path) -> None:
    pooled(2, save, FSDP, [tmp_path] * 2, [1])
    before = pooled(2, load, FSDP, [tmp_path] * 2)[0]
    pooled(2, save, FSDP, [tmp_path] * 2, [2])
    flip(tmp_path / "step-00000002/rank-00001-of-00002.safetensors")
    found = pooled(2, load, FSDP, [tmp_path] * 2)
    assert [each[0] for each in found] == [1, 1]
    assert equal(found[0][1], before[1])
    lines = "\n".join(found[0][2])
    assert "checkpoint 2 in" in lines
    assert "rank-00001-of-00002.safetensors differs from its checksum" in lines
    assert (tmp_path / "quarantine/step-00000002.1/report.json").is_file()


@pytest.mark.parametrize("run", DDP_FIRST)
def test_hosts_that_share_no_folder(run: Run, pooled: Any, tmp_path: Path) -> None:
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    saved = pooled(2, save, run, hosts, [1])[0]
    for rank, host in enumerate(hosts):
        files = sorted(path.name for path in (host / "step-00000001").iterdir())
        assert files == ["index.json", "manifest.json", f"rank-{rank:05d}-of-00002.safetensors", "state.json"]
    manifests = {(host / "step-00000001/manifest.json").read_bytes() for host in hosts}
    assert len(manifests) == 1  # in an object store they lie on top of each other
    found = pooled(2, load, run, hosts)
    assert [each[0] for each in found] == [1, 1]
    assert equal(found[0][1], saved)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def copied_to_one_place(hosts: list[Path], place: Path) -> Path:
    """As the agents of all hosts copy what they have to one prefix."""
    for host in hosts:
        shutil.copytree(host, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lock.json"))
    return place


@pytest.mark.slow
def test_a_step_saved_again_has_one_name_on_hosts_that_share_no_folder(pooled: Any, tmp_path: Path) -> None:
    """One has its first edition whole; the other was stopped before its manifest."""
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    pooled(2, save, FSDP, hosts, [1])
    (hosts[1] / "step-00000001/manifest.json").unlink()
    saved = pooled(2, save, FSDP, hosts, [1])[0]
    assert [names(host) for host in hosts] == [["step-00000001.2"]] * 2
    together = copied_to_one_place(hosts, tmp_path / "together")
    step, loaded, _, _ = pooled(1, load, Run("single", 1), [together])[0]
    assert step == 1
    assert equal(loaded, saved)


def test_a_lock_takeover_on_one_host_is_known_on_all(pooled: Any, tmp_path: Path) -> None:
    """Who slept there may still write to folders of its own name: those of the training that goes on are others."""
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    lock = Lock(FolderPlace(hosts[1]))
    lock.acquire()
    lock.raise_term(3)
    lock.release()
    pooled(2, save, FSDP, hosts, [1])
    assert [names(host) for host in hosts] == [["step-00000001.301"]] * 2
    assert [json.loads((host / "lock.json").read_text())["term"] for host in hosts] == [3, 3]


class NoIndexPlace(FolderPlace):
    fails = False

    def write(self, name: str, data: memoryview | bytes) -> int:
        if self.fails and name.endswith("index.json"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(name, data)


def fail_on_one_host(process: Process, hosts: list[Path]) -> list[Any]:
    place = NoIndexPlace(hosts[process.rank])
    strategy = build(process, FSDP, SETTING)
    found = []
    with Checkpointer(place, process, say=lambda line: None) as checkpoints:
        for step in (1, 2, 3):
            place.fails = process.rank == 1 and step == 2
            go_on(strategy, SETTING)
            checkpoints.save(step, {"step": step}, strategy)
            found.append((checkpoints.wait(), checkpoints.store.steps()))
    return found


class WaitingPlace(FolderPlace):
    """Its disk stands still, file by file, until ranks have heard of each other five times more."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.heard, self.is_slow, self.late = threading.Condition(), False, list[str]()
        self.times = 0

    def count(self) -> None:
        with self.heard:
            self.times += 1
            self.heard.notify_all()

    def names(self, below: str = "") -> dict[str, int]:
        self._stand_still(f"names of {below}")
        return super().names(below)

    def write(self, name: str, data: memoryview | bytes) -> int:
        self._stand_still(name)
        return super().write(name, data)

    def create(self, name: str, data: bytes) -> None:
        self._stand_still(name)
        super().create(name, data)

    def _stand_still(self, name: str) -> None:
        with self.heard:
            until = self.times + 5
            if self.is_slow and not self.heard.wait_for(lambda: self.times >= until, timeout=2):
                self.late.append(name)


def save_slowly(process: Process, hosts: list[Path], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], bool]:
    """What stood still on this rank without a word to the others, and whether anything went to and fro meanwhile."""
    place = WaitingPlace(hosts[process.rank])
    real = Group.gather

    def counting(self: Group, data: bytes) -> list[bytes]:
        gathered = real(self, data)
        place.count()
        return gathered

    monkeypatch.setattr(Group, "gather", counting)
    monkeypatch.setattr("drivetrain.training.group._PACE_S", 0.01)
    strategy = build(process, FSDP, SETTING)
    go_on(strategy, SETTING)
    with Checkpointer(place, process) as checkpoints:
        checkpoints.save(1, {"step": 1}, strategy)
        assert checkpoints.wait()
        place.is_slow, place.times = checkpoints.keeps_folder, 0
        checkpoints.save(2, {"step": 2}, strategy)
        assert checkpoints.wait()
        place.is_slow = False
    return place.late, place.times > 5


@pytest.mark.slow
@pytest.mark.parametrize("names", [["host"] * 2, ["host-0", "host-1"]], ids=["one folder", "two folders"])
def test_a_stalled_disk_during_a_save_is_not_a_stalled_rank(
    names: list[str], forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(Index and manifest were written while the others waited: a short collective_timeout ended the training.)"""
    hosts = [tmp_path / name for name in names]
    assert forked(2, save_slowly, hosts, monkeypatch) == [([], True)] * 2


def test_no_host_commits_before_all_hosts_have_everything(pooled: Any, tmp_path: Path) -> None:
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    right = [(True, [1]), (False, [1]), (True, [3, 1])]
    assert pooled(2, fail_on_one_host, hosts) == [right, right]


@pytest.mark.slow
def test_a_host_without_its_manifest_uses_that_of_another(pooled: Any, tmp_path: Path) -> None:
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    pooled(2, save, FSDP, hosts, [1, 2])
    manifest = hosts[1] / "step-00000002/manifest.json"
    manifest.unlink()
    assert pooled(2, load, FSDP, hosts)[0][0] == 2
    assert manifest.read_bytes() == (hosts[0] / "step-00000002/manifest.json").read_bytes()


@pytest.mark.slow
def test_a_host_votes_on_the_files_that_its_ranks_need(pooled: Any, tmp_path: Path) -> None:
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    pooled(2, save, FSDP, hosts, [1, 2])
    flip(hosts[1] / "step-00000002/rank-00001-of-00002.safetensors")
    found = pooled(2, load, FSDP, hosts)
    assert [each[0] for each in found] == [1, 1]
    for host in hosts:
        assert (host / "quarantine/step-00000002.1/report.json").is_file()


@pytest.mark.slow
def test_an_unneeded_copy_has_no_vote(pooled: Any, tmp_path: Path) -> None:
    """The platform restores everything on every host, and may have been interrupted in it."""
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    saved = pooled(2, save, FSDP, hosts, [1])[0]
    for host, other in (hosts, hosts[::-1]):
        shutil.copytree(other, host, dirs_exist_ok=True)
    flip(hosts[0] / "step-00000001/rank-00001-of-00002.safetensors")
    (hosts[1] / "step-00000001/rank-00000-of-00002.safetensors").write_bytes(b"half of it")
    step, loaded, _, _ = pooled(2, load, FSDP, hosts)[0]
    assert step == 1
    assert equal(loaded, saved)


@pytest.mark.slow
def test_another_number_of_ranks_needs_all_files(pooled: Any, tmp_path: Path) -> None:
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    saved = pooled(2, save, FSDP, hosts, [1])[0]
    step, _, _, refused = pooled(1, load, Run("single", 1), hosts)[0]
    assert step is None
    assert "in files of other hosts" in refused
    assert "needs a checkpoints folder that the hosts share, or one that was restored on each of them" in refused
    # What the platform does when it restores on every host.
    shutil.copytree(hosts[1], hosts[0], dirs_exist_ok=True)
    step, loaded, _, _ = pooled(1, load, Run("single", 1), hosts)[0]
    assert step == 1
    assert equal(loaded, saved)


@pytest.mark.slow
def test_an_empty_host_does_not_force_a_fresh_start(pooled: Any, tmp_path: Path) -> None:
    hosts = [tmp_path / "host-0", tmp_path / "host-1"]
    pooled(2, save, FSDP, hosts, [1])
    shutil.rmtree(hosts[1])
    for step, _, _, refused in pooled(2, load, FSDP, hosts):
        assert step is None
        assert "the host of rank 1 has no checkpoint of step 1" in refused


def draw() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(()))]


def draw_after_save(process: Process, folder: Path) -> list[float]:
    strategy = build(process, DDP, SETTING)
    go_on(strategy, SETTING)
    random.seed(process.rank)
    np.random.seed(process.rank)
    torch.manual_seed(process.rank)
    draw()
    with Checkpointer(FolderPlace(folder), process) as checkpoints:
        checkpoints.save(1, {}, strategy)
    return draw()


def draw_after_load(process: Process, run: Run, folder: Path) -> tuple[list[float], list[str]]:
    lines: list[str] = []
    strategy = build(process, run, SETTING)
    options = CheckpointOptions(seed=7)
    with Checkpointer(FolderPlace(folder), process, options=options, say=lines.append) as checkpoints:
        assert checkpoints.load_newest(strategy)
    return draw(), lines


def test_each_rank_resumes_its_own_random_numbers(pooled: Any, tmp_path: Path) -> None:
    drawn = pooled(2, draw_after_save, tmp_path)
    assert drawn[0] != drawn[1]
    assert [numbers for numbers, _ in pooled(2, draw_after_load, DDP, tmp_path)] == drawn


@pytest.mark.slow
def test_on_another_number_of_ranks_random_numbers_start_anew(pooled: Any, tmp_path: Path) -> None:
    pooled(2, draw_after_save, tmp_path)
    found = pooled(3, draw_after_load, Run("ddp", 3), tmp_path)
    assert found == pooled(3, draw_after_load, Run("ddp", 3), tmp_path)
    assert len({tuple(numbers) for numbers, _ in found}) == 3
    assert "random numbers are seeded anew: 2 processes wrote the checkpoint, now 3 run" in found[0][1]


def held_and_written(process: Process, run: Run, folder: Path) -> tuple[int, int]:
    """Numbers of the best model that a rank holds, and bytes of its file."""
    strategy = build(process, run, SETTING)
    go_on(strategy, SETTING)
    best = model_parts(strategy)
    with Checkpointer(FolderPlace(folder), process) as checkpoints:
        checkpoints.save(1, {}, strategy, best=best)
        checkpoints.wait()
        held = sum(local(tensor).numel() for tensor in best.values())
        file = folder / f"step-00000001/rank-{process.rank:05d}-of-{process.world_size:05d}.safetensors"
        whole = sum(t.numel() * t.element_size() for t in tensors_of(strategy, best).values())
        assert file.stat().st_size < 0.6 * whole + 40_000  # generators, and a header
        return held, sum(tensor.numel() for tensor in best.values())


@pytest.mark.parametrize("run", [DDP, FSDP], ids=lambda run: run.id)
def test_no_rank_writes_or_keeps_the_whole(run: Run, forked: Any, tmp_path: Path) -> None:
    for held, whole in forked(2, held_and_written, run, tmp_path):
        assert held == whole if run is DDP else held < 0.6 * whole


class NotedPlace(FolderPlace):
    """Keeps which files of tensors were read into memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.loaded: list[str] = []

    def read_into(self, name: str, buffer: memoryview) -> int:
        self.loaded.append(Path(name).name)
        return super().read_into(name, buffer)


def read_back(process: Process, run: Run, folder: Path) -> list[str]:
    place = NotedPlace(folder)
    strategy = build(process, run, SETTING)
    go_on(strategy, SETTING)
    with Checkpointer(place, process) as checkpoints:
        checkpoints.save(1, {}, strategy)
        assert checkpoints.wait()
        assert checkpoints.load_newest(strategy) is not None
    return place.loaded


def test_a_rank_with_parts_of_its_own_reads_its_own_file_only(pooled: Any, tmp_path: Path) -> None:
    assert pooled(2, read_back, FSDP, tmp_path) == [[f"rank-0000{rank}-of-00002.safetensors"] for rank in range(2)]


def refuse(process: Process, folder: Path) -> str:
    """A second training in the same place: only rank 0 takes the lock, all are refused."""
    Lock.__init__.__kwdefaults__["patience_s"] = 0.5  # in the forked rank only
    with pytest.raises(InputError, match="is in use by") as refused:
        Checkpointer(FolderPlace(folder), process)
    return str(refused.value)


def test_a_second_training_is_refused_on_every_rank(forked: Any, tmp_path: Path) -> None:
    holder = Process(0, 1, 0, 1, torch.device("cpu"))
    with Checkpointer(FolderPlace(tmp_path), holder):
        started = time.monotonic()
        said = forked(2, refuse, tmp_path)
    assert len(set(said)) == 1
    assert f"pid {os.getpid()}" in said[0]
    assert time.monotonic() - started < 30
