"""Ranks of the train program, forked from this process, which has imported torch: a start takes 0.05 s, not seconds.

They are real processes with real gloo and real files, and may be killed at any time. What each does is announced through
a pipe as it happens, and written to a trace:

    trace-<attempt>-<rank>.jsonl    a line a step: [step, keys of this rank's samples, state before the step]
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist
from torch import Tensor

from drivetrain.training_scripts import train
from drivetrain.training_scripts.distribution.sharded import local
from drivetrain.training_scripts.launching.parent import follow_parent
from drivetrain.training_scripts.loop.seeding import StepSeeds
from drivetrain.training_scripts.strategy import Strategy
from tests.faults.harness import phases

# No pool of threads may exist in a process that forks; one thread a rank is also what the launcher gives on 2 cores.
torch.set_num_threads(1)


@dataclass(frozen=True)
class Event:
    """A rank has come to (`begins`) or out of a phase; `when` by time.monotonic."""

    rank: int
    phase: str
    begins: bool
    when: float


class Ranks:
    """One start of a training on `world_size` ranks.

    Args:
        words: the train program's command line.
        folder: gets `log-<attempt>-<rank>.txt`, the traces, and the file by which the ranks meet.
        attempt: a number of its own for each start in a folder.
        change: called in each rank before the program.
    """

    def __init__(
        self,
        world_size: int,
        words: Sequence[str],
        folder: Path,
        attempt: int,
        *,
        environment: Mapping[str, str] | None = None,
        change: Callable[[int], None] | None = None,
    ) -> None:
        self.began = time.monotonic()
        self.events: list[Event] = []
        self.codes: dict[int, int] = {}
        reading, writing = os.pipe()
        self._pipe = reading
        self._held = b""
        self._ended = False
        self.pids: list[int] = []
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(world_size):
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                _be_rank(rank, world_size, list(words), folder, attempt, writing, dict(environment or {}), change)
            self.pids.append(pid)
        os.close(writing)
        self._pidfds = {os.pidfd_open(pid): rank for rank, pid in enumerate(self.pids)}

    def until(self, reached: Callable[[Event], bool], timeout: float) -> bool:
        """Return at the moment of the first event that is `reached`; False where the ranks ended before, or in time."""
        deadline = time.monotonic() + timeout
        while not self._ended:
            if not self._wait([self._pipe], deadline - time.monotonic()):
                return False
            for event in self._read():
                if reached(event):
                    return True
        return False

    def wait(self, timeout: float) -> dict[int, int]:
        """Exit codes by rank (negative: the signal) of those that have ended, once all have or `timeout` is over."""
        deadline = time.monotonic() + timeout
        while self._pidfds:
            waited = [*self._pidfds, *([] if self._ended else [self._pipe])]
            ready = self._wait(waited, deadline - time.monotonic())
            if not ready:
                break
            if self._pipe in ready:
                self._read()
            for pidfd in ready:
                if pidfd in self._pidfds:
                    self._reap(pidfd)
        return self.codes

    def send(self, number: signal.Signals, ranks: Sequence[int] | None = None) -> None:
        """A signal to ranks that have not ended, to all of them unless named."""
        for rank in self._pidfds.values():
            if ranks is None or rank in ranks:
                os.kill(self.pids[rank], number)

    def close(self) -> None:
        """SIGKILL what is left, and read what was announced."""
        self.send(signal.SIGKILL)
        for pidfd in list(self._pidfds):
            self._reap(pidfd)
        while not self._ended:
            self._read()
        os.close(self._pipe)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reap(self, pidfd: int) -> None:
        rank = self._pidfds.pop(pidfd)
        _, status = os.waitpid(self.pids[rank], 0)
        self.codes[rank] = os.waitstatus_to_exitcode(status)
        os.close(pidfd)

    def _wait(self, descriptors: Sequence[int], seconds: float) -> list[int]:
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)]

    def _read(self) -> list[Event]:
        now = time.monotonic()
        data = os.read(self._pipe, 65536)
        self._ended = self._ended or not data
        held = self._held + data
        whole = len(held) - len(held) % phases.RECORD
        self._held = held[whole:]
        events = [
            Event(held[at], phases.NAMES[held[at + 1]], held[at + 2] == 1, now) for at in range(0, whole, phases.RECORD)
        ]
        self.events += events
        return events


def _be_rank(
    rank: int,
    world_size: int,
    words: list[str],
    folder: Path,
    attempt: int,
    announcements: int,
    environment: dict[str, str],
    change: Callable[[int], None] | None,
) -> None:
    try:
        follow_parent(signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(folder / f"log-{attempt}-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(world_size),
            "GLOO_SOCKET_IFNAME": "lo",
            **environment,
        }
        sys.argv = ["train", *words]
        # They meet through a file, so no port is taken.
        store = partial(dist.FileStore, str(folder / f"meeting-{attempt}"), world_size)
        join = dist.init_process_group

        def meet(backend: str, **more: Any) -> None:
            join(backend, store=store(), rank=rank, world_size=world_size, **more)

        dist.init_process_group = meet
        phases.announce(announcements, rank)
        trace_steps(folder / f"trace-{attempt}-{rank}.jsonl")
        if change:
            change(rank)
        train.main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(70)


def trace_steps(path: Path) -> None:
    """Write down each step's samples and the state in which it finds everything that is trained."""
    trace = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    start, take = StepSeeds.start, Strategy.train_step
    at = 0

    def start_traced(self: StepSeeds, step: int) -> None:
        nonlocal at
        at = step
        start(self, step)

    def take_traced(self: Strategy, batch: Any, *, num_samples: int, **more: Any) -> Any:
        keys = batch.targets[:num_samples].tolist()
        os.write(trace, json.dumps([at, keys, state_of(self)]).encode() + b"\n")
        return take(self, batch, num_samples=num_samples, **more)

    StepSeeds.start = start_traced
    Strategy.train_step = take_traced


def state_of(strategy: Strategy) -> dict[str, int]:
    """A checksum of this rank's part of every tensor that is trained, by name."""
    names = {parameter: name for name, parameter in strategy.parameters.items()}
    found: dict[str, Tensor] = {f"model/{name}": value for name, value in strategy.model.state_dict().items()}
    for parameter, entries in strategy.optimizer.state.items():
        found |= {f"optimizer/{names[parameter]}/{entry}": value for entry, value in entries.items()}
    found |= {f"average/{name}": value for name, value in (strategy.average.values if strategy.average else {}).items()}
    return {name: zlib.crc32(local(value.detach()).contiguous().numpy().data) for name, value in sorted(found.items())}
