"""mpirun: a plain MPI program, and torch's own group, through the same launcher."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("mpirun") and shutil.which("mpicc")),
        reason="needs Open MPI: apt-get install openmpi-bin libopenmpi-dev",
    ),
]

Start = Callable[..., "subprocess.Popen[str]"]

PROGRAM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t told = 0;
static void tell(int number) { told = number; }

int main(int count, char **words) {
  int rank, size, sum;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d sum %d %s %s\n", rank, size, sum, getenv("FORWARDED"), words[2]);
  fflush(stdout);
  if (!strcmp(words[1], "exit") && rank == 1) exit(3);
  if (!strcmp(words[1], "kill") && rank == 1) raise(SIGKILL);
  if (!strcmp(words[1], "save")) {
    sigset_t none, term;
    sigemptyset(&none);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    signal(SIGTERM, tell);
    printf("ready %d\n", rank);
    fflush(stdout);
    while (told != SIGTERM) sigsuspend(&none);
    printf("saved %d\n", rank);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["mpicc", str(folder / "program.c"), "-o", str(folder / "program")], check=True)
    return str(folder / "program")


def said_by_ranks(out: str) -> list[str]:
    return sorted(line for line in out.splitlines() if line.startswith("rank "))


def test_a_plain_mpi_program(program: str, start: Start, tmp_path: Path) -> None:
    process = start("--launcher=mpirun", "--processes=3", "--script", program, "fine", "a b", FORWARDED="yes")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert said_by_ranks(out) == [f"rank {rank} of 3 sum 3 yes a b" for rank in range(3)]
    assert not (tmp_path / "failure").exists()


def test_hosts_that_are_names_of_this_machine(program: str, two_hosts: Any) -> None:
    first, second = two_hosts("--launcher=mpirun", "--script", program, "fine", "x", processes=2, FORWARDED="yes")
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert said_by_ranks(out) == [f"rank {rank} of 4 sum 6 yes x" for rank in range(4)]
    out, err = second.communicate(timeout=60)
    assert (second.returncode, err) == (0, "")
    assert said_by_ranks(out) == []  # mpirun on the first host shows what they say


@pytest.mark.parametrize(
    ("kind", "code", "reason"),
    [("exit", 1, "it ended with exit code 3"), ("kill", 75, "it was ended by SIGKILL")],
)
def test_the_rank_that_failed_is_named(
    kind: str, code: int, reason: str, program: str, start: Start, tmp_path: Path
) -> None:
    process = start("--launcher=mpirun", "--processes=2", "--script", program, kind, "x")
    process.communicate(timeout=60)
    assert process.returncode == code
    assert (tmp_path / "failure").read_text().startswith(f"rank 1 of 2 on 127.0.0.1 failed: {reason}")


def test_sigterm_reaches_every_rank_and_a_save_counts(program: str, start: Start) -> None:
    process = start("--launcher=mpirun", "--processes=2", "--script", program, "save", "x")
    assert process.stdout is not None
    seen: list[str] = []
    while sum(line.startswith("ready") for line in seen) < 2:
        seen.append(process.stdout.readline())
        assert seen[-1], "it ended before its ranks were ready"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert sorted(line for line in out.splitlines() if line.startswith("saved")) == ["saved 0", "saved 1"]


TRAIN = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank())])
dist.all_reduce(value)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {value.item():.0f}", flush=True)
if dist.get_rank() == 1:
    raise ValueError("boom")
dist.barrier()
"""


def test_torchs_own_group_and_the_traceback_of_the_rank_that_failed(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    process = start("--launcher=mpirun", "--processes=2", "--script", "train.py")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said_by_ranks(out) == ["rank 0 of 2 sum 1", "rank 1 of 2 sum 1"]
    reason = (tmp_path / "failure").read_text()
    assert reason.startswith("rank 1 of 2 on 127.0.0.1 failed: ValueError: boom\n")
    assert reason.rstrip().endswith("ValueError: boom")
