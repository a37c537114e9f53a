"""The agent that keeps checkpoints in the store, with all its unpleasantness."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.jobs.sync_agent import UPLOADED, UPLOADING, SyncAgent

URI = "s3://bucket/checkpoints/"
PATIENCE_S = 20.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


class Place:
    def __init__(self, folder: Path, hosts: int = 1) -> None:
        self.store = ObjectStore(folder / "s3")
        self.hosts = [folder / f"host-{number}" / "checkpoints" for number in range(hosts)]
        self.staging = folder / "staging"

    def agent(self, *, seed: str = "1", delay_s: float = 0.0) -> SyncAgent:
        for host in self.hosts:
            host.mkdir(parents=True, exist_ok=True)
        return SyncAgent(self.store, URI, self.hosts, self.staging, seed=seed, delay_s=delay_s)

    @property
    def stored(self) -> list[str]:
        return [item.name for item in self.store.find(URI)]


def test_writes_are_uploaded_and_deletions_are_not(tmp_path: Path) -> None:
    place = Place(tmp_path)
    agent = place.agent()
    agent.start()
    folder = place.hosts[0]
    (folder / "step-1").mkdir()
    (folder / "step-1" / "weights").write_bytes(b"1" * 600_000)
    until(lambda: place.stored == ["step-1/weights"])
    until((folder / "step-1" / f"weights{UPLOADED}").exists)
    (folder / "step-1" / "weights").write_bytes(b"2" * 600_000)
    until(lambda: place.store.path(URI + "step-1/weights").read_bytes()[:1] == b"2")
    (folder / "step-1" / "weights").unlink()
    (folder / "step-2").write_text("x")
    assert agent.finish()
    assert place.stored == ["step-1/weights", "step-2"]
    assert not list(folder.rglob(f"*{UPLOADING}")) and not place.staging.exists()


def test_the_end_brings_what_is_left_without_waiting(tmp_path: Path) -> None:
    place = Place(tmp_path)
    agent = place.agent(delay_s=1e6)
    for name in "ab":
        (place.hosts[0] / name).write_text(name)
    agent.start()
    assert not place.stored
    assert agent.finish(PATIENCE_S)
    assert place.stored == ["a", "b"]


def test_a_machine_that_goes_leaves_a_torn_file_and_loses_the_rest(tmp_path: Path) -> None:
    place = Place(tmp_path)
    agent = place.agent(delay_s=0.5)
    for name in "abc":
        (place.hosts[0] / name).write_bytes(name.encode() * 1000)
    agent.start()
    until(lambda: list(place.hosts[0].glob(f"*{UPLOADING}")))  # one is on its way
    [on_its_way] = [path.name for path in place.hosts[0].glob(f"*{UPLOADING}")]
    assert not agent.cut()
    torn = place.store.path(URI + on_its_way)
    assert torn.stat().st_size == 500
    assert on_its_way in place.stored and on_its_way.removesuffix(UPLOADING) not in place.stored
    assert len(place.stored) < 4
    restored = Place(tmp_path / "again", hosts=2)
    restored.store = place.store
    later = restored.agent()
    assert later.restore() == len(place.stored)
    for host in restored.hosts:  # the torn one, too, on every host
        assert (host / on_its_way).stat().st_size == 500
    later.start()
    assert later.finish()
    assert place.store.path(URI + on_its_way).stat().st_size == 500  # and nobody takes it for a checkpoint's file


def test_orders_are_seeded(tmp_path: Path) -> None:
    def order(name: str, seed: str) -> list[str]:
        place = Place(tmp_path / name)
        for number in range(12):
            place.store.put(f"{URI}{number:02d}", b"x")
        agent = place.agent(seed=seed)
        agent.restore()
        return sorted(os.listdir(place.hosts[0]), key=lambda one: (place.hosts[0] / one).stat().st_mtime_ns)

    assert order("a", "7-0") == order("b", "7-0") != order("c", "7-1")
    assert order("d", "7-0") != sorted(order("a2", "7-0"))


def test_a_file_that_changes_under_its_hands_is_copied_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    agent = place.agent(delay_s=0.05)
    agent.start()
    path, stored = place.hosts[0] / "grows", place.store.path(URI + "grows")
    for number in range(40):
        with open(path, "r+b" if number else "wb") as file:  # never empty in between
            file.write(bytes([number]) * 10_000)
        if stored.exists():
            assert len(set(stored.read_bytes())) == 1
        time.sleep(0.03 if number % 10 == 0 else 0.002)
    assert agent.finish()
    assert stored.read_bytes() == bytes([39]) * 10_000


def test_of_two_hosts_that_write_one_name_the_last_wins(tmp_path: Path) -> None:
    place = Place(tmp_path, hosts=2)
    agent = place.agent()
    agent.start()
    (place.hosts[0] / "same").write_text("first")
    until(lambda: place.stored == ["same"])
    (place.hosts[1] / "same").write_text("second")
    until(lambda: place.store.path(URI + "same").read_text() == "second")
    assert agent.finish()
    assert place.store.path(URI + "same").read_text() == "second"


def test_errors_in_the_agent_thread_are_reported(tmp_path: Path) -> None:
    place = Place(tmp_path)
    agent = place.agent()
    agent.start()
    place.store.put(URI + "step", b"an object")
    (place.hosts[0] / "step").mkdir()
    (place.hosts[0] / "step" / "weights").write_text("x")
    with pytest.raises(ValueError, match="is a file here and a folder there"):
        agent.finish()
