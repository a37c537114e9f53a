"""Ranks that take one job after another, and those that a test forks for itself: what they leave behind."""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from drivetrain.training.process import Process
from drivetrain.training_scripts.strategies import ddp
from tests.distributed.own_ranks import run_forked
from tests.distributed.rank_pool import FORK, RankPool

ENDS_S = 30


def pids(process: Process) -> int:
    return os.getpid()


def state(process: Process) -> list[Any]:
    """What an earlier job could have changed."""
    drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))]
    return [
        drawn,
        os.getcwd(),
        dict(os.environ),
        list(sys.path),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.get_float32_matmul_precision(),
        signal.getsignal(signal.SIGTERM),
        sorted(thread.name for thread in threading.enumerate()),
        process.world_size == 1 or dist.get_world_size(),
    ]


def change_everything(process: Process, folder: Path) -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    os.chdir(folder)
    os.environ["LEFT_BEHIND"] = "1"
    os.environ.pop("PATH")
    sys.path.insert(0, str(folder))
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("medium")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("world_size", [1, 2])
def test_a_job_sees_nothing_of_an_earlier_one(world_size: int, forked: Any, tmp_path: Path) -> None:
    pool = RankPool(world_size, tmp_path)  # (not the one of all tests, which may be at its last job)
    try:
        before = pool.run(pids, (), 20)
        first = pool.run(state, (), 20)
        pool.run(change_everything, (tmp_path,), 20)
        assert pool.run(state, (), 20) == first
        assert pool.run(pids, (), 20) == before
    finally:
        pool.end()
    # And what it does see is what a rank of the test's own would.
    own = forked(world_size, state)
    assert [found[0][1:] for found in first] == [found[0][1:] for found in own]  # (Python's own starts anew in a fork)
    assert [{**found[2], "GLOO_SOCKET_IFNAME": "lo"} for found in own] == [found[2] for found in first]


def import_it(process: Process, name: str) -> int:
    return __import__(name).NUMBER


def test_modules_of_a_test_are_forgotten(pooled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "of_this_test.py").write_text(f"NUMBER = {number}\n")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            assert pooled(2, import_it, "of_this_test") == [number] * 2


def patch_a_class(process: Process) -> None:
    ddp.Strategy.train_step = lambda *given, **named: None


def leave_a_thread(process: Process) -> None:
    threading.Thread(target=threading.Event().wait, name="left", daemon=True).start()


def fail_on_one(process: Process) -> None:
    assert process.rank == 0, "the second one fails"
    process.barrier()


@pytest.mark.slow_cases("patch_a_class-strategies.ddp.Strategy.train_step")
@pytest.mark.parametrize(
    ("job", "words"),
    [
        (patch_a_class, "strategies.ddp.Strategy.train_step"),
        pytest.param(leave_a_thread, "left running by a job, .* own: left", marks=pytest.mark.slow),
        (fail_on_one, "rank 1:(?s:.)*the second one fails"),
    ],
)
def test_a_job_that_fails_or_leaves_something_ends_its_pool(job: Any, words: str, pooled: Any) -> None:
    before = pooled(2, pids)
    with pytest.raises(AssertionError, match=words):
        pooled(2, job, timeout=20)
    assert not set(pooled(2, pids)) & set(before)


def say(process: Process, words: str) -> None:
    print(words)


def test_output_of_a_job_belongs_to_its_test(pooled: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for words in ("one", "two"):
        pooled(2, say, words)
        assert capfd.readouterr().out == f"{words}\n{words}\n"


def test_an_unsendable_function_is_reported(tmp_path: Path) -> None:
    pool = RankPool(1, tmp_path)
    try:
        with pytest.raises((AttributeError, TypeError), match="lambda"):
            pool.run(lambda process: None, (), 20)
        assert pool.is_alive()
        assert len(pool.run(pids, (), 20)) == 1
    finally:
        pool.end()


def tell_and_wait(process: Process, told: int) -> None:
    os.write(told, f"{os.getpid()}\n".encode())
    signal.pause()


@pytest.mark.parametrize("kind", ["pooled", "forked"])
def test_ranks_end_with_the_tests_that_asked_for_them(kind: str, tmp_path: Path) -> None:
    """(A pytest that was killed left two behind.)"""
    told, tell = os.pipe()

    def run_tests() -> None:
        if kind == "pooled":
            RankPool(2, tmp_path).run(tell_and_wait, (tell,), 600)
        else:
            run_forked(tmp_path, 2, tell_and_wait, tell, timeout=600)

    tests = FORK.Process(target=run_tests)
    tests.start()
    os.close(tell)
    with os.fdopen(told) as lines:
        ranks = [os.pidfd_open(int(lines.readline())) for _ in range(2)]
        tests.kill()
        tests.join()
        for rank in ranks:
            assert select.select([rank], [], [], ENDS_S)[0], "a rank lives on"
            os.close(rank)
