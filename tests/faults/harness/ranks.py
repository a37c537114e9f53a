"""Ranks of the train program, forked from this process, which has imported torch: a start takes 0.05 s, not seconds.

They are real processes with real gloo and real files, and may be killed at any time. What each does is announced
through a pipe as it happens, and each step is written to a trace.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training import plugins
from drivetrain.training.launch.processes.parent import follows_parent
from drivetrain.training.serving.code_folder import code_of
from drivetrain.training_scripts import train
from tests.faults.harness import phases, tiny_recipe
from tests.faults.harness.traces import listen_often, trace_steps

# What each rank would import, and read of files, for itself.
for _family in ("health/rules", "readers", "metrics"):
    for _name in plugins.names(_family):
        plugins.load(_family, _name, kind="plug-in")
for _name in ("torch.framework", "checkpointing.places.folder", "torch.checkpoints.memory"):
    importlib.import_module(f"drivetrain.training.{_name}")
code_of(tiny_recipe.Recipe(), "npz")

# A rank that should have ended is asked what it is doing.
_SAY_WHERE, _SECONDS_TO_SAY = signal.SIGUSR2, 0.5
# When torchrun sees that a rank is gone, and ends the others.
_TORCHRUN_LOOKS_S = 0.1

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
        words: the program's command line.
        folder: gets `log-<attempt>-<rank>.txt`, the traces, and the file by which the ranks meet.
        attempt: a number of its own for each start in a folder.
        program: what each rank runs.
        change: called in each rank before the program.
    """

    def __init__(
        self,
        world_size: int,
        words: Sequence[str],
        folder: Path,
        attempt: int,
        *,
        program: Callable[[], None] = train.main,
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
        follow = follows_parent(signal.SIGKILL)
        for rank in range(world_size):
            pid = os.fork()
            if pid == 0:
                follow()
                os.close(reading)
                _be_rank(rank, world_size, list(words), folder, attempt, writing, program, change)
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
        while self._pidfds and self.wait_for_any(deadline - time.monotonic()):
            continue
        return self.codes

    def wait_for_any(self, timeout: float) -> bool:
        """Return when a rank ends or announces something; False where none did in time."""
        ready = self._wait([*self._pidfds, *([] if self._ended else [self._pipe])], timeout)
        if self._pipe in ready:
            self._read()
        for pidfd in ready:
            if pidfd in self._pidfds:
                self._reap(pidfd)
        return bool(ready)

    @property
    def are_at_work(self) -> bool:
        """Whether all have taken a step, or begun one. Until then they may be making groups, in which a rank waits for
        one that is gone; torchrun ends it."""
        return len(self.pids) == len({event.rank for event in self.events if event.phase == "step"})

    def end_the_rest(self, number: signal.Signals, draw: random.Random) -> None:
        """After a signal that some ranks were sent: what torchrun does soon, while those that are left cannot see it
        (`are_at_work`)."""
        if not self.are_at_work:
            self.wait(draw.uniform(0.0, _TORCHRUN_LOOKS_S))
            self.send(number)

    @property
    def has_ended(self) -> bool:
        """Whether every rank has closed its end of the pipe."""
        return self._ended

    def send(self, number: signal.Signals, ranks: Sequence[int] | None = None) -> None:
        """A signal to ranks that have not ended, to all of them unless named."""
        for rank in self._pidfds.values():
            if ranks is None or rank in ranks:
                os.kill(self.pids[rank], number)

    def close(self) -> None:
        """SIGKILL what is left, after it has written into its log where it is, and read what was announced."""
        if self._pidfds:
            self.send(_SAY_WHERE)
            self.wait(_SECONDS_TO_SAY)
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
    program: Callable[[], None],
    change: Callable[[int], None] | None,
) -> None:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(folder / f"log-{attempt}-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.register(_SAY_WHERE, file=2, all_threads=True)
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(world_size),
            "GLOO_SOCKET_IFNAME": "lo",
            EXECUTION: "one",  # of a platform that starts a training again; another would not take up an ended one
        }
        sys.argv = ["train", *words]
        # They meet through a file, so no port is taken.
        store = partial(dist.FileStore, str(folder / f"meeting-{attempt}"), world_size)
        join = dist.init_process_group

        def meet(backend: str, **more: Any) -> None:
            if "store" in more:  # a group of one, which some strategies make for themselves
                join(backend, **more)
                return
            with phases.announced("meeting", announcements, rank):
                join(backend, store=store(), rank=rank, world_size=world_size, **more)

        dist.init_process_group = meet
        phases.announce(announcements, rank)
        trace_steps(folder / f"trace-{attempt}-{rank}.jsonl")
        listen_often()
        if change:
            change(rank)
        program()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(70)
