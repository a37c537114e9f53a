"""Several processes through the real launcher and torchrun."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Without torch, so that a start costs what torchrun costs.
PROGRAM = """
import os, signal, sys
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.failure import run_rank
from drivetrain.training_scripts.parent import die_with_parent

def program():
    kind, rank = sys.argv[1], int(os.environ["RANK"])
    line = f"rank {rank} of {os.environ['WORLD_SIZE']} pid {os.getpid()} parent {os.getppid()}"
    os.write(1, f"{line} threads {os.environ['OMP_NUM_THREADS']}\\n".encode())
    if kind == "fine":
        return
    if kind == "input":
        raise InputError("no recipe 'digit'")
    if rank == 1 and kind == "raise":
        raise ValueError("boom on rank 1")
    if rank == 1 and kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and kind == "abort":
        os.abort()
    signal.pause()

die_with_parent(signal.SIGKILL)
run_rank(program)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "rank_program.py").write_text(PROGRAM)
    (tmp_path / "tmp").mkdir()

    def started(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        environment = {"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
        environment["DRIVETRAIN_FAILURE_FILE"] = str(tmp_path / "failure")
        return subprocess.Popen(
            [sys.executable, "-m", "drivetrain.training_scripts.launch", *arguments],
            env={**os.environ, **environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


def ranks(process: subprocess.Popen[str], count: int) -> dict[int, dict[str, int]]:
    """What the first `count` ranks print: their number, pid, parent's pid and threads."""
    assert process.stdout is not None
    found: dict[int, dict[str, int]] = {}
    while len(found) < count:
        line = process.stdout.readline()
        assert line, "the launcher ended before its ranks had started"
        if line.startswith("launcher: "):
            continue
        words = line.split()
        values = {words[0]: int(words[1]), **{n: int(v) for n, v in zip(words[2::2], words[3::2], strict=True)}}
        found[values["rank"]] = values
    return found


def test_two_ranks_with_their_share_of_the_cores(start: Start, tmp_path: Path) -> None:
    process = start("--processes=2", "rank_program", "fine")
    found = ranks(process, 2)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert set(found) == {0, 1}
    assert {values["of"] for values in found.values()} == {2}
    assert {values["threads"] for values in found.values()} == {max(1, len(os.sched_getaffinity(0)) // 2)}
    assert list((tmp_path / "tmp").iterdir()) == []  # torchrun's own folder is gone, too


@pytest.mark.parametrize(
    ("kind", "code", "first_line", "last_line"),
    [
        (
            "raise",
            1,
            "rank 1 of 2 on 127.0.0.1 failed: ValueError: boom on rank 1",
            "ValueError: boom on rank 1",
        ),
        ("kill", 75, "rank 1 of 2 on 127.0.0.1 failed: it was ended by SIGKILL", ""),
        ("input", 2, "error: no recipe 'digit'", "error: no recipe 'digit'"),
    ],
)
def test_the_rank_that_failed_is_named(
    kind: str, code: int, first_line: str, last_line: str, start: Start, tmp_path: Path
) -> None:
    process = start("--processes=2", "rank_program", kind)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith(first_line)
    assert err.rstrip().endswith(last_line)
    assert (tmp_path / "failure").read_text().rstrip() == err.rstrip()
    if kind == "raise":
        assert 'raise ValueError("boom on rank 1")' in err
    if kind == "input":
        assert err.count("\n") == 1  # once, not once a rank


@pytest.mark.slow
def test_a_crash_in_native_code_is_told_from_the_rank_that_torchrun_stopped(start: Start) -> None:
    process = start("--processes=2", "rank_program", "abort")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "rank 1 of 2 on 127.0.0.1 failed: it was ended by SIGABRT" in err
    assert "Fatal Python error: Aborted" in err


def assert_gone(pids: list[int]) -> None:
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            continue
        assert state == "Z", f"process {pid} still lives in state {state}"  # a zombie waits only for init


def test_sigterm_ends_all(start: Start, tmp_path: Path) -> None:
    process = start("--processes=2", "rank_program", "wait")
    found = ranks(process, 2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)  # ends with the last holder of the pipe
    assert (process.returncode, out) == (75, "")
    assert err == "stopped by SIGTERM before the program was done; it can be tried again.\n"
    assert_gone([pid for values in found.values() for pid in (values["pid"], values["parent"])])


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["launcher", "torchrun"])
def test_nobody_outlives_a_killed_parent(victim: str, start: Start) -> None:
    process = start("--processes=2", "rank_program", "wait")
    found = ranks(process, 2)
    os.kill(process.pid if victim == "launcher" else found[0]["parent"], signal.SIGKILL)
    out, err = process.communicate(timeout=60)  # ends with the last holder of the pipe
    assert out == ""
    if victim == "torchrun":
        assert process.returncode == 75
        assert err == "torchrun on 127.0.0.1 was ended by SIGKILL; it can be tried again.\n"
    assert_gone([pid for values in found.values() for pid in (values["pid"], values["parent"])])


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def two_hosts(start: Start, tmp_path: Path, *arguments: str, **variables: str) -> list[subprocess.Popen[str]]:
    hosts, port = ("127.0.0.2", "127.0.0.3"), free_port()
    return [
        start(
            *arguments,
            DRIVETRAIN_HOSTS=",".join(hosts),
            DRIVETRAIN_HOST=host,
            DRIVETRAIN_PORT=port,
            DRIVETRAIN_NETWORK_INTERFACE="lo",
            DRIVETRAIN_PROCESSES="1",
            DRIVETRAIN_FAILURE_FILE=str(tmp_path / f"failure-{host}"),
            **variables,
        )
        for host in hosts
    ]


def test_two_hosts_are_ranked_in_their_order(start: Start, tmp_path: Path) -> None:
    processes = two_hosts(start, tmp_path, "rank_program", "fine")
    for number, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        said, line = out.splitlines()
        assert said.startswith(f"launcher: from DRIVETRAIN_HOSTS: 2 hosts x 1 process, this is {number} (127.0.0.")
        assert said.endswith("network interface lo (named by the platform or the user)")
        assert line.startswith(f"rank {number} of 2 ")


def test_a_port_that_is_taken(start: Start, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.2", 0))
        listener.listen()
        process = start(
            "rank_program",
            "fine",
            DRIVETRAIN_HOSTS="127.0.0.2,127.0.0.3",
            DRIVETRAIN_HOST="127.0.0.2",
            DRIVETRAIN_PORT=str(listener.getsockname()[1]),
        )
        _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert err.startswith("127.0.0.2 did not meet the other hosts of the job (DistNetworkError: ")
    assert (tmp_path / "failure").read_text() == err


TALKING = """
import os, signal
import torch
from drivetrain.training_scripts.failure import run_rank
from drivetrain.training_scripts.process import join_group

def program():
    with join_group() as process:
        for step in range(10_000):
            process.sum(torch.ones(10))
            if step == 3 and process.rank == 1:
                raise ValueError("boom on rank 1")

run_rank(program)
"""


@pytest.mark.slow
def test_a_failing_host_takes_the_others_with_it_and_only_one_is_the_cause(start: Start, tmp_path: Path) -> None:
    (tmp_path / "talking.py").write_text(TALKING)
    first, second = two_hosts(start, tmp_path, "talking")
    _, first_err = first.communicate(timeout=120)
    _, second_err = second.communicate(timeout=120)
    assert second.returncode == 1
    assert second_err.startswith("rank 1 of 2 on 127.0.0.3 failed: ValueError: boom on rank 1\n")
    assert first.returncode == 75
    assert first_err.startswith("rank 0 of 2 on 127.0.0.2 failed: ")
    assert "It lost another process" in first_err


def arguments_of_train(data: Path, target: Path) -> list[str]:
    return [
        "drivetrain.training_scripts.train",
        *(f"--train={data}", f"--validation={data}", f"--model={target / 'model'}"),
        *(f"--output={target / 'output'}", f"--checkpoints={target / 'checkpoints'}"),
        *("--recipe=digits_cnn", '--recipe-options={"channels": 8, "hidden": 32}', "--epochs=2"),
    ]


@pytest.mark.slow
def test_two_jobs_side_by_side_and_two_hosts_give_the_same_bytes(start: Start, digits: Path, tmp_path: Path) -> None:
    """Two jobs at once on one machine (no port is fixed), then the same two ranks on two hosts.

    With one number of threads: how a sum is split among threads decides its last bit.
    """
    threads = {"OMP_NUM_THREADS": "1"}
    jobs = [start("--processes=2", *arguments_of_train(digits, tmp_path / name), **threads) for name in ("a", "b")]
    for job in jobs:
        out, err = job.communicate(timeout=120)
        assert (job.returncode, err) == (0, "")
        assert re.search(r"^epoch 2/2 step 4 train_loss=\S+ validation_loss=\S+ validation_accuracy=\S+ s", out, re.M)
    for job in two_hosts(start, tmp_path, *arguments_of_train(digits, tmp_path / "c"), **threads):
        _, err = job.communicate(timeout=120)
        assert (job.returncode, err) == (0, "")

    def files(name: str) -> dict[str, bytes]:
        folders: list[Any] = [tmp_path / name / "model", tmp_path / name / "output"]
        return {path.name: path.read_bytes() for folder in folders for path in folder.iterdir()}

    assert set(files("a")) == {"model.safetensors", "model.json", "history.json"}
    assert files("a") == files("b") == files("c")
