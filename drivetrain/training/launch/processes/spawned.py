"""Processes that another Python spawns and watches: the launcher of a notebook.

Each is a fresh Python: a notebook has threads, with which a fork may hang. Nothing of its __main__ is imported again or
pickled; a process gets a program by name and its work as text, and reports as the launcher's ranks do.
"""

from __future__ import annotations

import codecs
import multiprocessing
import os
import signal
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.launch.processes.failure import (
    ERROR_FILE,
    Failure,
    describe,
    from_rank,
    json_or_none,
    root_cause,
    run_rank,
)
from drivetrain.training.launch.processes.parent import announce_parent, die_with_parent

# Time to leave by themselves, for processes that are stopped or whose peer has failed.
LEAVE_S = 10.0
_LAST_LINES = 15  # of a process that died without a report
_SPAWN = multiprocessing.get_context("spawn")  # torch.multiprocessing's is this very one


class RankError(RuntimeError):
    """A process failed: the message names its rank and ends with its traceback; `failures` holds all of them."""

    def __init__(self, message: str, failures: list[Failure]) -> None:
        super().__init__(message)
        self.failures = failures


class Ranks:
    """The processes of one `program`. Each gets `work`: a text, so that nothing of a notebook is pickled."""

    def __init__(
        self, number: int, program: Callable[[str], None], work: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.number, self.program, self.work = number, program, work
        self.environment = environment or {}
        self.processes: list[SpawnProcess] = []
        self.ends: list[int] = []
        self.outputs: dict[Connection, int] = {}
        self.last: list[deque[str]] = [deque(maxlen=_LAST_LINES) for _ in range(number)]
        self.decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(number)]

    def run(self, folder: Path) -> None:
        """Run to the end; `folder` gets the reports of ranks that fail.

        Raises:
            InputError, RankError: a rank failed. All others have ended, too.
        """
        try:
            for rank in range(self.number):
                self._start(rank, folder)
            failures = self._wait(folder)
        finally:
            self.stop()
            while self.ends:
                os.close(self.ends.pop())
        if not failures:
            return
        cause = root_cause(failures)
        if cause.kind == "input":
            raise InputError(cause.summary)
        text = describe(cause, failures, world_size=self.number, host="this machine")
        last = "" if cause.details else "".join(self.last[cause.rank])
        raise RankError(f"{text}\n{last}".rstrip(), failures)

    def _start(self, rank: int, folder: Path) -> None:
        environment = {
            **announce_parent(dict(self.environment)),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.number),
            "LOCAL_WORLD_SIZE": str(self.number),
            ERROR_FILE: str(_error_file(folder, rank)),
        }
        path = [entry or os.getcwd() for entry in sys.path]
        receiver, sender = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_rank, args=(self.program, self.work, environment, path, sender))
        self.processes.append(process)
        self.outputs[receiver] = rank
        with _no_main():
            process.start()
        sender.close()  # a pipe ends when its process does
        # Not `process.sentinel`, a pipe too: what the process leaves behind would keep it open.
        self.ends.append(os.pidfd_open(process.pid or 0))

    def _wait(self, folder: Path) -> list[Failure]:
        """Show what rank 0 prints until all have ended; who failed."""
        stop_at: float | None = None
        both = list(zip(self.processes, self.ends, strict=True))
        while running := [end for process, end in both if process.exitcode is None]:
            left = None if stop_at is None else max(0.0, stop_at - time.monotonic())
            self._show(wait([*self.outputs, *running], left))
            failures = self._failures(folder)
            if failures and stop_at is None:
                # A rank that only lost another one is soon followed by the one with the reason.
                stop_at = time.monotonic() + (LEAVE_S if root_cause(failures).kind == "peer" else 0.0)
            elif stop_at is not None and time.monotonic() >= stop_at:
                self.stop()
        while self.outputs and (ready := wait([*self.outputs], 0)):  # what is left in the pipes
            self._show(ready)
        return self._failures(folder)

    def stop(self) -> None:
        """End all that still run: SIGTERM, a grace, SIGKILL."""
        running = [process for process in self.processes if process.pid is not None and process.exitcode is None]
        try:
            for process in running:
                process.terminate()
            deadline = time.monotonic() + LEAVE_S
            for process in running:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:  # also if the user interrupts the wait
            for process in running:
                process.kill()
                process.join()

    def _show(self, ready: Iterable[Any]) -> None:
        for connection in ready:
            if not isinstance(connection, Connection):  # a process that has ended
                continue
            rank = self.outputs[connection]
            data = os.read(connection.fileno(), 65536)
            text = self.decoders[rank].decode(data, final=not data)
            self.last[rank].extend(text.splitlines(keepends=True))
            if rank == 0 and text:
                sys.stdout.write(text)
                sys.stdout.flush()
            if not data:
                del self.outputs[connection]
                connection.close()

    def _failures(self, folder: Path) -> list[Failure]:
        return [
            from_rank(rank, process.exitcode, json_or_none(_error_file(folder, rank)))
            for rank, process in enumerate(self.processes)
            if process.exitcode
        ]


def _error_file(folder: Path, rank: int) -> Path:
    return folder / f"error-{rank}.json"


@contextmanager
def _no_main() -> Generator[None]:
    """A spawned process imports the file of its parent's __main__ again: here that is no file (a prompt, a notebook),
    or a script that would start everything once more. The ranks need nothing of it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _rank(
    program: Callable[[str], None], work: str, environment: dict[str, str], path: list[str], output: Connection
) -> None:
    """Run the program in a spawned process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent decides
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115  (for the process's life)
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.update(environment)  # before torch is imported, which reads some of them
    die_with_parent(signal.SIGKILL)
    sys.path[:] = path
    run_rank(lambda: program(work))
