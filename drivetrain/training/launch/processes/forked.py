"""Processes that are forked before they have a program, from a launcher that has torch loaded.

A run on this machine may start the launcher in an interpreter that loaded torch while the step before was at work. A
fork of it goes on as a rank without loading torch again: there os.execve does not start an interpreter, but lets this
one be the program (drivetrain.targets.local.containers.become). Anywhere else torch is not loaded and nobody is forked.

They are forked before the launcher has threads, temporary folders and signal handlers, which are not theirs.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from drivetrain.training.launch.processes.parent import follows_parent


class Forked:
    """A child of this process that waits for its program; then as subprocess.Popen."""

    def __init__(self, before: Sequence[Forked]) -> None:
        self.returncode: int | None = None
        follow = follows_parent(signal.SIGTERM)
        read, self._write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for other in (*before, self):
                os.close(other._write)
            _wait_for_a_program(read, follow)
        os.close(read)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Go on as this program, in a process group of its own."""
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


def forked(number: int) -> list[Forked]:
    """So many processes where torch is loaded, else none."""
    found: list[Forked] = []
    for _ in range(number if "torch" in sys.modules else 0):
        found.append(Forked(found))
    return found


def _wait_for_a_program(read: int, follow: Callable[[], None]) -> NoReturn:
    os.setpgid(0, 0)
    follow()
    with open(read, "rb") as pipe:
        told = pipe.read()
    if not told:
        os._exit(0)
    command, environment = marshal.loads(told)  # the process that forked this one wrote it  # nosec B302
    os.execve(command[0], command, environment)
