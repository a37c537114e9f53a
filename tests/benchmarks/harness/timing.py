"""Wall and CPU seconds of whole processes, and the order in which rivals take turns."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

OURS = "drivetrain"


@dataclass(frozen=True)
class Ran:
    """How a process went. `cpu` is user + system time of it and of every descendant that was waited for."""

    command: tuple[str, ...]
    code: int
    wall: float
    cpu: float
    output: str
    """Standard output."""
    errors: str
    """Standard error."""

    def checked(self) -> Ran:
        """Itself, when the command ended well.

        Raises:
            CommandError: otherwise, with the end of what it printed.
        """
        if self.code != 0:
            said = (self.output + self.errors).strip().splitlines()[-12:]
            raise CommandError(f"{' '.join(self.command)} ended with {self.code}:\n" + "\n".join(said))
        return self


class CommandError(RuntimeError):
    """A measured command did not do its work, so its time says nothing."""


def run(command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str], limit: float = 300.0) -> Ran:
    """Run a command to its end, within `limit` seconds; after that its process group is killed (code -9)."""
    words = tuple(str(word) for word in command)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        timer = threading.Timer(limit, _kill_group, [process.pid])
        timer.start()
        # wait4 and not getrusage(RUSAGE_CHILDREN): that one sums all children ever waited for.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ran(
            command=words,
            code=process.returncode,
            wall=wall,
            cpu=usage.ru_utime + usage.ru_stime,
            output=_read(output),
            errors=_read(errors),
        )


def in_turn(
    rivals: Mapping[str, Callable[[], float]], *, rounds: int, failed: dict[str, str] | None = None
) -> dict[str, float]:
    """The median of each rival's measurements, taken A B C A B C, so that a busy moment hits all of them alike.

    A peer whose command fails is left out, and `failed` says why. It raises where ours fails, or without `failed`.
    """
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name in list(taken):
            try:
                taken[name].append(rivals[name]())
            except CommandError as error:
                if failed is None or name == OURS:
                    raise
                failed[name] = str(error).splitlines()[-1]
                del taken[name]
    return {name: statistics.median(values) for name, values in taken.items()}


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended between the alarm and the kill


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")
