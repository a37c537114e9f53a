"""A process of a job is asked where it is, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivetrain.training.launch.processes import stacks
from drivetrain.training.launch.processes.stacks import ranks_with, stack_of

PROGRAM = """
import sys
from pathlib import Path
from drivetrain.training.launch.processes import heartbeat, stacks
folder = Path(sys.argv[1])
heartbeat.register(folder, local_rank=1, rank=5, attempt=0)
kept = stacks.register(folder, 1)
def waits_for_the_others():
    print("ready", flush=True)
    sys.stdin.readline()
waits_for_the_others()
print("went on", flush=True)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_a_rank_says_where_it_is_and_goes_on(
    started: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stacks.shutil, "which", lambda name: None
    )  # Python's own answer, also where py-spy is installed
    (rank,) = ranks_with(str(tmp_path))
    assert (rank.rank, rank.local_rank, rank.pid) == (5, 1, started.pid)
    for _ in range(2):  # each answer is one by itself
        said = stack_of(rank)
        assert said.count("waits_for_the_others") == 1 and "most recent call first" in said
    os.kill(started.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, started.pid, os.WSTOPPED | os.WNOWAIT)
    assert "it is stopped (SIGSTOP" in stack_of(rank)
    os.kill(started.pid, signal.SIGCONT)
    assert started.stdin is not None and started.stdout is not None
    started.stdin.write("\n")
    started.stdin.flush()
    assert started.stdout.readline() == "went on\n"
    started.wait(10)
    assert stack_of(rank) == "it has ended"


def test_without_an_answer_there_is_no_stack(tmp_path: Path) -> None:
    assert ranks_with(f"{tmp_path}/no-such-run/") == []
