"""Launchers: started, read from, and never left behind.

They and what they start are forked from this process, which has imported torch (tests/fixtures/forked_python.py). A
test that asks for `new_interpreters` gets what users get.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from drivetrain.base.ports import held_port
from drivetrain.training.launch.processes.parent import announce_parent
from tests.fixtures.forked_python import forked_python, new_python

ENDS_S = 10

# Without torch, so that a start costs what torchrun costs.
PROGRAM = """
import os, signal, sys
from drivetrain.base.errors import InputError
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.parent import die_with_parent

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
    if rank == 1 and kind == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    if rank == 1 and kind == "exit":
        sys.exit(3)
    if rank == 1 and kind == "abort":
        os.abort()
    signal.pause()

die_with_parent(signal.SIGKILL)
run_rank(program)
"""

Start = Callable[..., "subprocess.Popen[str]"]
Ranks = Callable[["subprocess.Popen[str]", int], dict[int, dict[str, int]]]
TwoHosts = Callable[..., "list[subprocess.Popen[str]]"]


@pytest.fixture(scope="module", autouse=True)
def forks() -> Generator[None]:
    with forked_python():
        yield


@pytest.fixture
def new_interpreters() -> Generator[None]:
    """Nothing is forked in this test: each Python is a new one."""
    with new_python():
        yield


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    """`start(*words, **variables)`: a launcher, with `rank_program` to start and a place for its failure."""
    (tmp_path / "rank_program.py").write_text(PROGRAM)
    (tmp_path / "tmp").mkdir()
    processes: list[subprocess.Popen[str]] = []

    def started(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        environment = {"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
        environment["DRIVETRAIN_FAILURE_FILE"] = str(tmp_path / "failure")
        environment["AWS_EC2_METADATA_DISABLED"] = "true"  # whatever machine the tests run on
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "drivetrain.training_scripts.launch", *arguments],
                cwd=tmp_path,
                env=announce_parent({**os.environ, **environment, **variables}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield started
    for process in processes:
        process.kill()  # all that it started ends with it
        process.communicate()


@pytest.fixture
def two_hosts(start: Start, tmp_path: Path) -> Generator[TwoHosts]:
    """`two_hosts(*words, **variables)`: two launchers on loopback addresses, which are two hosts to each other."""
    with held_port() as held:

        def started(*arguments: str, processes: int = 1, **variables: str) -> list[subprocess.Popen[str]]:
            hosts = ("127.0.0.2", "127.0.0.3")
            return [
                start(
                    *arguments,
                    DRIVETRAIN_HOSTS=",".join(hosts),
                    DRIVETRAIN_HOST=host,
                    DRIVETRAIN_PORT=str(held.getsockname()[1]),
                    DRIVETRAIN_PROCESSES=str(processes),
                    DRIVETRAIN_FAILURE_FILE=str(tmp_path / f"failure-{host}"),
                    **variables,
                )
                for host in hosts
            ]

        yield started


@pytest.fixture
def ranks() -> Ranks:
    """`ranks(process, count)`: what the first ranks of rank_program print: number, pid, parent's pid and threads."""

    def read(process: subprocess.Popen[str], count: int) -> dict[int, dict[str, int]]:
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

    return read


@pytest.fixture
def assert_gone() -> Callable[[list[int]], None]:
    def check(pids: list[int]) -> None:
        for pid in pids:
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                # Its files are closed a moment before it has ended; a zombie waits only for init.
                assert select.select([process], [], [], ENDS_S)[0], f"process {pid} still lives"
            finally:
                os.close(process)

    return check
