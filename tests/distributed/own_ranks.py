"""Ranks of a test's own, forked from this process, which has imported torch once."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch

from drivetrain.training.launch.processes.parent import follows_parent
from drivetrain.training.process import Process
from tests.distributed.rank_pool import FORK, how_it_died, trace_fatal_signals, trace_of
from tests.distributed.rank_pool import join as join_gloo


def run_forked(
    folder: Path,
    world_size: int,
    function: Callable[..., Any],
    *arguments: Any,
    timeout: float = 60,
    collective_timeout: float = 1800,
    may_die: Any = (),
    join: Callable[[Path, timedelta, Process], Process] = join_gloo,
) -> list[Any]:
    """What `function(process, *arguments)` returns on each rank; they meet in a file of `folder`.

    A rank in `may_die` may end without an answer (None), and nobody waits for it. `collective_timeout` is that of the
    ranks' group [s]; `join` lets them meet.
    """
    store = Path(tempfile.mkdtemp(dir=folder)) / "store"
    meet = partial(_meet, join, FORK.Barrier(world_size), store, timedelta(seconds=collective_timeout))
    follow = follows_parent(signal.SIGKILL)
    ranks, receivers = [], []
    for rank in range(world_size):
        receiver, sender = FORK.Pipe(duplex=False)
        given = (rank, world_size, meet, follow, sender, trace_of(store, rank), function, arguments, bool(may_die))
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
                failure = None if number in may_die else how_it_died(ranks[number], trace_of(store, number))
                answers.append((failure, None))
    finally:
        for rank in ranks:
            rank.kill()
            rank.join()
    # (All of them: what one died of, and what the others saw of it.)
    failures = [f"rank {number}:\n{failure}" for number, (failure, _) in enumerate(answers) if failure]
    assert not failures, "\n".join(failures)
    return [result for _, result in answers]


def _meet(
    join: Callable[[Path, timedelta, Process], Process],
    all_met: Barrier,
    store: Path,
    timeout: timedelta,
    process: Process,
) -> Process:
    """Join, and stay until all have: gloo's joining fails on a rank whose peer has joined and is gone again."""
    try:
        joined = join(store, timeout, process)
    except BaseException:
        all_met.abort()
        raise
    all_met.wait()
    return joined


def _rank(
    rank: int,
    world_size: int,
    meet: Callable[[Process], Process],
    follow: Callable[[], None],
    sender: Any,
    trace: Path,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    leave_alone: bool,
) -> None:
    gc.freeze()  # the collector would copy every page of what the tests before have made by touching it
    follow()
    trace_fatal_signals(trace)
    process = Process(rank, world_size, rank, world_size, torch.device("cpu"))
    try:
        if world_size > 1:
            process = meet(process)
        result = function(process, *arguments)
        if not leave_alone:
            process.barrier()  # nobody leaves while another still talks
        sender.send((None, result))
    except BaseException:
        sender.send((traceback.format_exc(), None))
    os._exit(0)
