"""Starts runs, one at a time for each pipeline, each a process of its own with a log."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from drivetrain.base.file_locks import hold
from drivetrain.spec.pipeline import Pipeline

GRACE_S = 60.0
"""Seconds that a run may take to end in order before it is killed."""

LOOK_S = 1.0
"""How often we look whether a run that an earlier server left behind has ended."""


@dataclass(frozen=True)
class Served:
    """A pipeline whose triggers are served, and the words by which `drivetrain run` finds it."""

    pipeline: Pipeline
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class QueuedStart:
    """A start: its pipeline, its trigger and its name."""

    served: Served
    trigger: str
    name: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    fresh: bool = False


def run_command(begun: QueuedStart) -> list[str]:
    """The command line of a run."""
    given = [part for name, value in begun.parameters.items() for part in ("--param", f"{name}={value}")]
    given += ["--fresh"] if begun.fresh else []
    return [sys.executable, "-m", "drivetrain.cli.main", "run", *begun.served.arguments, *given]


class Runs:
    """Runs that wait and runs that work; `stop` ends all of them.

    Each holds the lock of its pipeline as long as it lives, also when the server was killed and can end nothing: one
    that is served anew waits for it.
    """

    def __init__(
        self,
        logs: Path,
        ended: Callable[[QueuedStart, int | OSError, Path], None],
        command: Callable[[QueuedStart], Sequence[str]] = run_command,
        waits: Callable[[QueuedStart], None] = lambda begun: None,
    ) -> None:
        self._logs = logs
        self._ended = ended
        self._command = command
        self._guard = threading.Lock()
        self._waits = waits
        self._stopping = False
        self._stop = threading.Event()
        self._forgotten: list[QueuedStart] = []
        self._queues: dict[str, queue.Queue[QueuedStart | None]] = {}
        self._threads: list[threading.Thread] = []
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, begun: QueuedStart) -> None:
        """Run it as soon as the pipeline's earlier ones have ended. `ended` is told, from a thread of the pipeline."""
        name = begun.served.pipeline.name
        with self._guard:
            if self._stopping:
                self._forgotten.append(begun)
                return
            if name not in self._queues:
                self._queues[name] = queue.Queue()
                thread = threading.Thread(target=self._work, args=(name,), name=f"runs of {name}")
                self._threads.append(thread)
                thread.start()
            self._queues[name].put(begun)

    def stop(self, grace_s: float = GRACE_S) -> tuple[QueuedStart, ...]:
        """End what works, and return when no process is left.

        Returns:
            What waited and is forgotten.
        """
        with self._guard:
            self._stopping = True
            self._stop.set()
            for waiting in self._queues.values():
                waiting.put(None)
            children = list(self._children.values())
        for child in children:
            child.send_signal(signal.SIGTERM)
        for child in children:
            try:
                child.wait(grace_s)
            except subprocess.TimeoutExpired:
                child.kill()
        for thread in self._threads:
            thread.join()
        return tuple(self._forgotten)

    def _work(self, name: str) -> None:
        while (begun := self._queues[name].get()) is not None:
            log = self._logs / f"{begun.name}.log"
            try:
                child = self._child(begun, log)
            except OSError as error:
                self._ended(begun, error, log)
                continue
            if child is None:
                continue
            code = child.wait()
            with self._guard:
                del self._children[name]
            self._ended(begun, code, log)

    def _child(self, begun: QueuedStart, log: Path) -> subprocess.Popen[bytes] | None:
        """Its process, when its turn has come; None when we are stopped before."""
        name = begun.served.pipeline.name
        with (self._logs / f"{name}.lock").open("ab") as lock:
            alone = self._alone(begun, lock)
            with self._guard:
                if self._stopping or not alone:
                    self._forgotten.append(begun)
                    return None
                self._children[name] = child = self._process(begun, log, lock)
                return child

    def _alone(self, begun: QueuedStart, lock: IO[bytes]) -> bool:
        """Wait until no run of the pipeline works; False when we are stopped before."""
        import fcntl

        told = False
        while not self._stop.is_set():
            try:
                hold(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if not told:
                    self._waits(begun)
                    told = True
            self._stop.wait(LOOK_S)
        return False

    def _process(self, begun: QueuedStart, log: Path, lock: IO[bytes]) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            # A session of its own: an interrupt typed at the terminal comes once, and from us.
            return subprocess.Popen(
                list(self._command(begun)),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )
