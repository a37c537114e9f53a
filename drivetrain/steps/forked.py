"""Processes that are forked before they have a program, from one that has torch loaded.

A run on this machine may start a step in an interpreter that loaded torch while the step before was at work. A fork
goes on as the launcher, or as a rank, without loading torch again: there os.execve does not start an interpreter, but
lets this one be the program (drivetrain.targets.local.containers.become). Anywhere else torch is not loaded and nobody
is forked.

They are forked before there are threads, temporary folders and signal handlers, which are not theirs.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn


class Forked:
    """A child of this process that waits for its program, and ends where it gets none; then as subprocess.Popen.

    Args:
        before: those that were forked before it.
        prepare: what it does first.
    """

    def __init__(self, before: Sequence[Forked] = (), prepare: Callable[[], None] = lambda: None) -> None:
        self.returncode: int | None = None
        read, self._write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for other in (*before, self):
                os.close(other._write)
            _wait_for_a_program(read, prepare)
        os.close(read)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Go on as this program."""
        with open(self._write, "wb") as pipe:
            marshal.dump((list(command), dict(environment)), pipe)

    def leave(self) -> None:
        """End without a program."""
        os.close(self._write)
        self.wait()

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forked(number: int, prepare: Callable[[], None] = lambda: None) -> list[Forked]:
    """So many processes where torch is loaded, else none."""
    found: list[Forked] = []
    for _ in range(number if "torch" in sys.modules else 0):
        found.append(Forked(found, prepare))
    return found


def _wait_for_a_program(read: int, prepare: Callable[[], None]) -> NoReturn:
    prepare()
    with open(read, "rb") as pipe:
        told = pipe.read()
    if not told:
        os._exit(0)
    command, environment = marshal.loads(told)  # the process that forked this one wrote it  # nosec B302
    os.execve(command[0], command, environment)
