"""A rank that hangs ends its job within the time-out, is named, and says where it was: unchanged scripts, too."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.launch.processes.watchdog import FirstHost

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]

# Hangs in a function that can be recognized, after a few collectives.
SCRIPT = """
import os, signal, sys
from datetime import timedelta
import torch
import torch.distributed as dist

def hangs_here(kind):
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    while kind == "sleep":
        signal.pause()
    while True:
        pass

kind, victim, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
for step in range(10):
    dist.all_reduce(torch.ones(10))
    if step == 3 and dist.get_rank() == victim:
        hangs_here(kind)
"""


@pytest.mark.parametrize(
    ("kind", "victim"),
    [
        ("stop", 0),
        ("loop", 1),
        pytest.param("stop", 1, marks=pytest.mark.nightly),
        pytest.param("loop", 0, marks=pytest.mark.nightly),
    ],
)
def test_a_rank_missing_from_a_collective_is_named(kind: str, victim: int, start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    process = start("--processes=3", "--script", "train.py", kind, str(victim), "3")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    lines = err.splitlines()
    others = ", ".join(f"rank {rank}" for rank in range(3) if rank != victim)
    where = f"all_reduce of float [10] (collective 5, called at {tmp_path}/train.py, line 18 in <module>)"
    assert lines[0].startswith(
        f"rank {victim} of 3 on 127.0.0.1 hangs: it did not come to {where} before {others} timed out"
    )
    assert lines[1] == "It was here (most recent call first):"
    assert lines[2].endswith("in hangs_here")
    assert (tmp_path / "failure").read_text() == err


@pytest.mark.nightly
def test_a_hanging_rank_on_another_host_is_named_by_both(two_hosts: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    named = "rank 3 of 4 on 127.0.0.3 hangs: it did not come to all_reduce of float [10] (collective 5, called at "
    for process in two_hosts("--script", "train.py", "stop", "3", "3", processes=2):
        _, err = process.communicate(timeout=90)
        assert process.returncode == 75
        assert err.startswith(named)


def test_a_lone_hanging_rank_ends_after_the_first_host(
    two_hosts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirstHost, "PAUSE_S", 0.5)  # the launchers are forked from this process
    (tmp_path / "train.py").write_text(SCRIPT)
    first, second = two_hosts("--script", "train.py", "sleep", "1", "3")
    _, err = first.communicate(timeout=60)
    # (gloo may say before that it tried again to connect.)
    assert first.returncode == 75 and "rank 1 of 2 on 127.0.0.3 hangs: " in err
    _, err = second.communicate(timeout=60)
    assert second.returncode == 75
    assert "rank 1 of 2 on 127.0.0.3 hangs: it did not notice that 127.0.0.2, the first host, has ended" in err
    assert "in hangs_here" in err


BEATING = """
import signal, sys
from drivetrain.training.launch.processes.heartbeat import beat

def hangs_here():
    while True:
        signal.pause()

for step in range(5):
    beat()
hangs_here()
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stalled_rank_is_named_without_a_collective(processes: int, start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BEATING)
    process = start(f"--processes={processes}", "--hang-timeout=2", "--script", "train.py")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    # (They all hang; the one whose last heartbeat is older is named.)
    end = f"of {processes} on 127.0.0.1 hangs: no heartbeat for 2 s, after 5 of them\n"
    assert err.startswith(tuple(f"rank {rank} {end}" for rank in range(processes)))
    assert "in hangs_here" in err


@pytest.mark.nightly
def test_a_killed_rank_is_not_reported_as_hanging(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        SCRIPT.replace("os.kill(os.getpid(), signal.SIGSTOP)", "os.kill(os.getpid(), 9)")
    )
    process = start("--processes=3", "--script", "train.py", "stop", "1", "30")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert err.startswith("rank 1 of 3 on 127.0.0.1 failed: it was ended by SIGKILL")


APART = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=3))
source = dist.get_rank()
received = torch.ones(5)
dist.recv(received, src=1 - source)  # each waits for the other to begin
"""


def test_deadlocked_ranks_are_distinguished_from_a_hanging_one(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(APART)
    process = start("--processes=2", "--script", "train.py")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "a collective timed out although no rank hangs: they call different ones, or lost the network" in err
    assert "dist.recv(received, src=1 - source)" in err
