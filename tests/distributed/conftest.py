"""Ranks are forked from this process, which has imported torch once: a start takes 0.05 s and not seconds."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet  # noqa: F401  (what every rank would import for itself)
import pytest
import torch
import torch._dynamo
import torch.distributed as dist

from drivetrain.training_scripts.process import Process

# No pool of threads may exist in a process that forks; one thread a rank is also what the launcher gives on 2 cores.
torch.set_num_threads(1)

FORK = multiprocessing.get_context("fork")


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def prepared_data() -> ModuleType:
    return _load("prepared_data")


@pytest.fixture
def digits(prepared_data: ModuleType, tmp_path: Path) -> Path:
    """50 rows: in batches of 16 the last batch of an epoch has 2."""
    return prepared_data.write_prepared(tmp_path / "train", prepared_data.digit_columns(50))


Forked = Callable[..., list[Any]]


@pytest.fixture
def forked(tmp_path: Path) -> Forked:
    """`forked(world_size, function, *arguments)`: what `function(process, *arguments)` returns on each rank.

    Real processes and real gloo; they meet through a file, so no port is taken. A rank in `may_die` may end without
    an answer (None), and nobody waits for it. `collective_timeout` is that of the ranks' group [s].
    """
    meetings = iter(range(1_000_000))

    def run(
        world_size: int,
        function: Callable[..., Any],
        *arguments: Any,
        timeout: float = 60,
        collective_timeout: float = 1800,
        may_die: Any = (),
    ) -> list[Any]:
        store = tmp_path / f"store-{next(meetings)}"
        join = partial(_join, store, timedelta(seconds=collective_timeout))
        ranks, receivers = [], []
        for rank in range(world_size):
            receiver, sender = FORK.Pipe(duplex=False)
            given = (rank, world_size, join, sender, function, arguments, bool(may_die))
            ranks.append(FORK.Process(target=_rank, args=given))
            receivers.append(receiver)
            ranks[-1].start()
            sender.close()  # before the next fork: a pipe ends when its rank does
        try:
            answers = []
            for number, receiver in enumerate(receivers):
                assert receiver.poll(timeout), f"rank {number} did not answer within {timeout} s"
                try:
                    answers.append(receiver.recv())
                except EOFError:
                    answers.append((None if number in may_die else "it died without an answer", None))
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()
        for number, (failure, _) in enumerate(answers):
            assert failure is None, f"rank {number}:\n{failure}"
        return [result for _, result in answers]

    return run


def _join(store: Path, timeout: timedelta, process: Process) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    met = dist.FileStore(str(store), process.world_size)
    dist.init_process_group("gloo", timeout=timeout, store=met, rank=process.rank, world_size=process.world_size)


def _rank(
    rank: int,
    world_size: int,
    join: Callable[[Process], None],
    sender: Any,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    leave_alone: bool,
) -> None:
    process = Process(rank, world_size, rank, world_size, torch.device("cpu"))
    try:
        if world_size > 1:
            join(process)
        result = function(process, *arguments)
        if not leave_alone:
            process.barrier()  # nobody leaves while another still talks
        sender.send((None, result))
    except BaseException:
        sender.send((traceback.format_exc(), None))
    os._exit(0)
