"""The launcher's eye on real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from drivetrain.training.launch.processes.watchdog import FirstHost, Watchdog, stack_of_main_thread

# argv: local rank, heartbeats to count before it stands still.
PROGRAM = """
import faulthandler, signal, sys
from pathlib import Path
from drivetrain.training.launch.processes import heartbeat

folder, local_rank, beats = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
faulthandler.enable(open(folder / f"{local_rank}.stack", "w"))
heartbeat.register(folder, local_rank=local_rank, rank=10 + local_rank, attempt=0)

def standing_still():
    for _ in range(beats):
        heartbeat.beat()
    print("ready", flush=True)
    while True:
        signal.pause()

standing_still()
"""

Start = Callable[[int, int], "subprocess.Popen[str]"]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("drivetrain.training.launch.processes.watchdog.time.monotonic", clock)
    return clock


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def started(local_rank: int, beats: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(local_rank), str(beats)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert processes[-1].stdout is not None
        assert processes[-1].stdout.readline() == "ready\n"
        return processes[-1]

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def test_the_rank_with_the_lowest_count_is_waited_for(start: Start, clock: Clock, tmp_path: Path) -> None:
    waiting, hanging = start(0, 5), start(1, 4)
    watchdog = Watchdog(tmp_path, hang_timeout=60)
    watchdog.tick()
    clock.now += 59
    watchdog.tick()
    assert watchdog.failures() == []
    clock.now += 2
    watchdog.tick()
    assert hanging.wait(timeout=20) == -signal.SIGABRT
    assert waiting.poll() is None
    [failure] = watchdog.failures()
    assert (failure.rank, failure.kind) == (11, "hang")
    assert failure.summary == "no heartbeat for 61 s, after 4 of them"
    lines = failure.details.splitlines()
    assert lines[0] == "It was here (most recent call first):"
    assert lines[1].endswith("in standing_still")


def test_a_rank_without_heartbeats_is_not_taken_to_hang(start: Start, clock: Clock, tmp_path: Path) -> None:
    process = start(0, 0)
    watchdog = Watchdog(tmp_path, hang_timeout=60)
    for _ in range(3):
        watchdog.tick()
        clock.now += 10_000
    assert process.poll() is None
    assert watchdog.failures() == []


def test_zero_is_never(start: Start, clock: Clock, tmp_path: Path) -> None:
    process = start(0, 3)
    os.kill(process.pid, signal.SIGSTOP)
    watchdog = Watchdog(tmp_path, hang_timeout=0)
    for _ in range(3):
        watchdog.tick()
        clock.now += 10_000
    assert process.poll() is None


def test_a_stopped_rank_hangs_even_without_heartbeats(start: Start, clock: Clock, tmp_path: Path) -> None:
    process = start(0, 0)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # the signal has arrived
    watchdog = Watchdog(tmp_path, hang_timeout=60)
    watchdog.tick()
    clock.now += 61
    watchdog.tick()
    assert process.wait(timeout=20) == -signal.SIGABRT
    [failure] = watchdog.failures()
    assert failure.summary == "it has been stopped (SIGSTOP) for 61 s"
    assert "standing_still" in failure.details


def test_a_briefly_stopped_rank_continues(start: Start, clock: Clock, tmp_path: Path) -> None:
    process = start(0, 0)
    watchdog = Watchdog(tmp_path, hang_timeout=60)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    watchdog.tick()
    os.kill(process.pid, signal.SIGCONT)
    os.waitpid(process.pid, os.WCONTINUED)
    clock.now += 61
    watchdog.tick()
    clock.now += 30
    watchdog.tick()
    assert process.poll() is None


def test_a_suspected_rank_is_ended_only_if_stopped(start: Start, clock: Clock, tmp_path: Path) -> None:
    late, stopped = start(0, 0), start(1, 0)
    os.kill(stopped.pid, signal.SIGSTOP)
    os.waitpid(stopped.pid, os.WUNTRACED)
    watchdog = Watchdog(tmp_path, hang_timeout=0)
    (tmp_path / "absent.json").write_text(json.dumps({"attempt": 0, "ranks": [10, 11], "sure": False, "reason": ""}))
    watchdog.tick()
    assert stopped.wait(timeout=10) == -signal.SIGABRT
    assert late.poll() is None
    (found,) = watchdog.failures()
    assert found.rank == 11
    assert found.summary == "it did not come to a collective before the others timed out: it is stopped (SIGSTOP)"


def test_a_rank_named_by_others_is_ended(start: Start, clock: Clock, tmp_path: Path) -> None:
    waiting, hanging = start(0, 0), start(1, 0)
    watchdog = Watchdog(tmp_path, hang_timeout=0)
    watchdog.tick()
    (tmp_path / "absent.json").write_text(
        json.dumps({"attempt": 0, "ranks": [11, 99], "sure": True, "reason": "it sleeps"})
    )
    watchdog.tick()
    assert hanging.wait(timeout=20) == -signal.SIGABRT
    assert waiting.poll() is None
    [failure] = watchdog.failures()
    assert (failure.rank, failure.summary) == (11, "it sleeps")
    # What was said of an earlier attempt says nothing of this one.
    (tmp_path / "absent.json").write_text(
        json.dumps({"attempt": 1, "ranks": [10], "sure": True, "reason": "it sleeps"})
    )
    watchdog.tick()
    assert [one.rank for one in watchdog.failures()] == [11]


def test_the_end_of_the_first_host_is_believed_after_a_while(clock: Clock) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    first = FirstHost("127.0.0.1", listener.getsockname()[1])
    assert not first.has_ended()
    listener.close()
    answers = []
    for _ in range(3):
        clock.now += FirstHost.PAUSE_S
        answers.append(first.has_ended())
    assert answers == [False, False, True]


def test_a_first_host_that_was_never_there_has_not_ended(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    first = FirstHost("127.0.0.1", port)
    for _ in range(20):
        assert not first.has_ended()
        clock.now += FirstHost.PAUSE_S


NATIVE = """Fatal Python error: Segmentation fault

Thread 0x00007f1 (most recent call first):
  File "/lib/threading.py", line 324 in wait

Current thread 0x00007f2 (most recent call first):
  File "/code/train.py", line 7 in step
  File "/site/drivetrain/training/launch/processes/rank.py", line 90 in _script
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy.core (total: 1)
"""


def test_the_frames_of_the_thread_that_the_signal_met() -> None:
    assert stack_of_main_thread(NATIVE).splitlines() == [
        "Fatal Python error: Segmentation fault",
        "Current thread 0x00007f2 (most recent call first):",
        '  File "/code/train.py", line 7 in step',
    ]
    assert stack_of_main_thread("") == ""
