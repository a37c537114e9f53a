"""Ranks that take one job after another: no start, and warm caches (cold ones are most of what a short training in
slices costs).

Nothing of a job reaches the next one. Each gets the environment, the folder, the generators and the outputs of the
test that asks; what torch keeps for a process is set back; and one that leaves something else changed (an attribute of
a module of ours, a thread) fails, as such a job belongs in ranks of its own (`forked`). A job that fails ends its pool,
and the next one gets a new pool.

The group of all ranks lasts as long as the pool. torch keeps what it worked out for slices by the shape of the mesh,
together with that mesh and the names of its groups: in a new group of all ranks those names would be of no group, or of
another one's. For a pool of one process there are no others to mistake, and strategies make its group themselves.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import multiprocessing
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.tensor import _random

from drivetrain.training.group.gloo import GlooGroup, give_way, use_one_gloo_worker
from drivetrain.training.launch.processes.parent import follows_parent
from drivetrain.training.process import Process

FORK = multiprocessing.get_context("fork")
# Each has groups of its own, which are there until the pool ends: threads and sockets.
MOST_JOBS = 60
_OUTPUTS = (1, 2)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
_THREADS_END_S = 5.0
# So long is waited for what others say once a rank has failed: it may have seen no more than that another one died.
_LAST_WORDS_S = 1.0
_PATCHED = ("os", "shutil", "tempfile", "torch.distributed")


def join(store: Path, timeout: timedelta, process: Process) -> Process:
    """The process in the group of all ranks, real gloo; they meet through a file, so no port is taken."""
    give_way()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    use_one_gloo_worker()
    met = dist.FileStore(str(store), process.world_size)
    dist.init_process_group("gloo", timeout=timeout, store=met, rank=process.rank, world_size=process.world_size)
    return replace(process, joined=GlooGroup(process.rank, process.world_size, timeout.total_seconds()))


def trace_of(store: Path, rank: int) -> Path:
    """Where a rank of those that meet in `store` leaves its last word."""
    return store.with_name(f"fatal-{rank}.txt")


def trace_fatal_signals(file: Path) -> None:
    """Leave there where every thread of this process is when a signal such as SIGABRT ends it."""
    faulthandler.enable(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), all_threads=True)


def how_it_died(rank: Any, trace: Path) -> str:
    """Of a rank that has closed its end without an answer: the signal that ended it, and what it left in `trace`."""
    rank.join(_THREADS_END_S)
    code = rank.exitcode
    reason = f"ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    return f"it died without an answer ({reason})\n{trace.read_text() if trace.exists() else ''}"


class RankPool:
    """`world_size` ranks, which end with the process that made them."""

    def __init__(self, world_size: int, temporary: Path) -> None:
        """`temporary`: what is imported from below it is forgotten after each job."""
        self.jobs = 0
        self._store = store = Path(tempfile.mkdtemp(dir=temporary)) / "store"
        self._ranks: list[Any] = []
        self._ends: list[Connection] = []
        follow = follows_parent(signal.SIGKILL)
        for rank in range(world_size):
            ours, theirs = FORK.Pipe()
            started = FORK.Process(target=_serve, args=(rank, world_size, store, temporary, theirs, follow))
            started.start()
            theirs.close()
            self._ranks.append(started)
            self._ends.append(ours)

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...], timeout: float) -> list[Any]:
        """What `function(process, *arguments)` returns on each rank.

        Raises:
            AssertionError: a rank failed, left something behind or gave no answer. This pool has ended then.
        """
        self.jobs += 1
        # (By value: torch would share the memory of tensors, and with it what a rank does to them.)
        generators = (random.getstate(), np.random.get_state(), torch.get_rng_state())
        surroundings = (dict(os.environ), os.getcwd(), sys.path, generators)
        job = pickle.dumps((surroundings, function, arguments))
        try:
            for rank, end in zip(self._ranks, self._ends, strict=True):
                end.send_bytes(job)
                for output in _OUTPUTS:
                    reduction.send_handle(end, output, rank.pid)
            return self._answers(timeout)
        except BaseException:
            self.end()
            raise

    def _answers(self, timeout: float) -> list[Any]:
        results: dict[int, Any] = {}
        failures: list[str] = []
        pending = {end: number for number, end in enumerate(self._ends)}
        deadline = time.monotonic() + timeout
        while pending:
            ready = wait(list(pending), max(0.0, deadline - time.monotonic()))
            if not ready and failures:
                break  # the others may wait for one that failed for ever
            assert ready, f"ranks {sorted(pending.values())} did not answer within {timeout} s"
            for end in ready:
                assert isinstance(end, Connection)
                number = pending.pop(end)
                try:
                    failure, results[number] = pickle.loads(end.recv_bytes())
                except EOFError:
                    failure = how_it_died(self._ranks[number], trace_of(self._store, number))
                if failure is not None:
                    failures.append(f"rank {number}:\n{failure}")
                    deadline = min(deadline, time.monotonic() + _LAST_WORDS_S)
        assert not failures, "\n".join(failures)
        return [results[number] for number in sorted(results)]

    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return bool(self._ranks) and self.jobs < MOST_JOBS and all(rank.is_alive() for rank in self._ranks)

    def end(self) -> None:
        for rank, end in zip(self._ranks, self._ends, strict=True):
            rank.kill()
            rank.join()
            end.close()
        self._ranks, self._ends = [], []


def _serve(
    rank: int, world_size: int, store: Path, temporary: Path, end: Connection, follow: Callable[[], None]
) -> None:
    """Work on jobs until the pool is ended."""
    gc.freeze()  # the collector would copy every page of what the tests before have made by touching it
    follow()
    trace_fatal_signals(trace_of(store, rank))
    # (Those of pytest write to the files of the test that made this pool.)
    sys.stdout, sys.stderr = (os.fdopen(output, "w", buffering=1, closefd=False) for output in _OUTPUTS)
    process = Process(rank, world_size, rank, world_size, torch.device("cpu"))
    if world_size > 1:
        process = join(store, timedelta(seconds=1800), process)
    traces = Traces()
    while True:
        job = end.recv_bytes()
        for output in _OUTPUTS:
            given = reduction.recv_handle(end)
            os.dup2(given, output)
            os.close(given)
        answer: tuple[str | None, Any]
        try:
            surroundings, function, arguments = pickle.loads(job)
            set_up(*surroundings)
            answer = (None, function(process, *arguments))
            process.barrier()  # nobody is at the next job while another still talks
            del arguments
            if world_size == 1 and dist.is_initialized():
                dist.destroy_process_group()
            traces.compare()
            forget_modules(temporary)
        except BaseException:
            answer = (traceback.format_exc(), None)
        sys.stdout.flush()
        sys.stderr.flush()
        end.send_bytes(pickle.dumps(answer))


def set_up(
    environment: dict[str, str], folder: str, path: list[str], generators: tuple[Any, Any, torch.Tensor]
) -> None:
    """What a rank forked by the test itself would find."""
    sys.path[:] = path
    importlib.invalidate_caches()
    os.environ.clear()
    os.environ.update(environment, GLOO_SOCKET_IFNAME="lo")
    os.chdir(folder)
    random.setstate(generators[0])
    np.random.set_state(generators[1])
    torch.set_rng_state(generators[2])
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(False)
    _random._rng_tracker = None  # of DTensors
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def forget_modules(folder: Path) -> None:
    """The file of another test may have the same name."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


class Traces:
    """What jobs could leave behind that nobody sets back."""

    def __init__(self) -> None:
        self._attributes, self._threads = _attributes(), set(threading.enumerate())

    def compare(self) -> None:
        """Raises AssertionError: something is left, or another one than it was."""
        before, self._attributes = self._attributes, _attributes()
        changed = [
            f"{owner}.{name}"
            for owner, names in before.items()
            for name, value in self._attributes.get(owner, {}).items()
            if value is not names.get(name) and _matters(value, names.get(name))
        ]
        assert not changed, f"changed by a job, which needs ranks of its own (`forked`): {', '.join(sorted(changed))}"
        deadline = time.monotonic() + _THREADS_END_S
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), f"left running by a job, which needs ranks of its own: {thread.name}"


def _attributes() -> dict[str, dict[str, Any]]:
    """Of our modules and their classes, and of other modules that tests patch."""
    found = {name: dict(vars(sys.modules[name])) for name in _PATCHED}
    for name, module in list(sys.modules.items()):
        if name.startswith("drivetrain."):
            found[name] = dict(vars(module))
            for own in found[name].values():
                if isinstance(own, type) and own.__module__ == name:
                    found[f"{name}.{own.__qualname__}"] = dict(vars(own))
    return found


def _matters(value: Any, before: Any) -> bool:
    """Whether it was patched. (What modules keep for themselves, as caches and counters, is no patch.)"""
    if before is None:  # an attribute that is new: a method put over an inherited one
        return isinstance(value, FunctionType)
    return isinstance(value, FunctionType | type | int | float | str | bytes | tuple) and value != before
