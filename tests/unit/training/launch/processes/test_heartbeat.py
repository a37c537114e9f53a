from __future__ import annotations

import os
import time
import timeit
from collections.abc import Generator
from pathlib import Path

import pytest

from drivetrain.training.launch.processes import heartbeat


@pytest.fixture(autouse=True)
def own_counter(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(heartbeat, "_cells", memoryview(bytearray(64)).cast("Q"))
    yield


def test_the_launcher_reads_heartbeats(tmp_path: Path) -> None:
    heartbeat.register(tmp_path, local_rank=1, rank=5, attempt=2)
    assert heartbeat.read_heartbeats(tmp_path) == [heartbeat.Heartbeat(1, 5, os.getpid(), 2, 0, False)]
    for _ in range(3):
        heartbeat.beat()
    assert heartbeat.read_heartbeats(tmp_path)[0].beats == 3
    heartbeat.finished()
    assert heartbeat.read_heartbeats(tmp_path)[0].done


def test_a_new_attempt_starts_at_zero(tmp_path: Path) -> None:
    heartbeat.register(tmp_path, local_rank=0, rank=0, attempt=0)
    heartbeat.beat()
    heartbeat.register(tmp_path, local_rank=0, rank=0, attempt=1)
    [found] = heartbeat.read_heartbeats(tmp_path)
    assert (found.beats, found.attempt) == (0, 1)
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_launcher_it_counts_for_nobody() -> None:
    heartbeat.beat()
    assert heartbeat._cells[0] == 1


def test_a_beat_costs_nothing(tmp_path: Path) -> None:
    heartbeat.register(tmp_path, local_rank=0, rank=0, attempt=0)
    seconds = min(timeit.repeat(heartbeat.beat, timer=time.thread_time, number=10_000, repeat=20)) / 10_000
    assert seconds < 2e-6
