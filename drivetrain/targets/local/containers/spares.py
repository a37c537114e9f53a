"""Supervisors that are started before their steps, so that a step does not wait for an interpreter."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drivetrain.targets.local.containers.supervised import Spare

# What the start file and a component without imports of its own need of the standard library.
STANDARD = (
    "argparse", "ast", "collections.abc", "contextlib", "dataclasses", "enum", "functools", "hashlib", "importlib",
    "inspect", "json", "math", "pathlib", "re", "runpy", "tarfile", "tempfile", "typing", "zipfile", "zlib",
)  # fmt: skip


class Spares:
    """The supervisors of a run that wait for the job of a step. Threads may share it.

    Each is a fork of a server (fork_server.py), serves one job, and ends by itself when this process does: then its
    stdin ends before a job has come.
    """

    def __init__(self) -> None:
        self._servers: list[_Server] = []
        self._waiting: dict[str, Spare] = {}
        self._lock = threading.Lock()

    def prepare(self, step: str, modules: Sequence[str] = ()) -> None:
        """Start a supervisor for a step, with these modules imported, unless one waits already."""
        with self._lock:
            if self._server_of(modules) is None:
                self._servers.append(_Server(modules))
            if step not in self._waiting and (spare := self._fork(modules)):
                self._waiting[step] = spare

    def take(self, step: str) -> Spare | None:
        """Hand over the supervisor of a step, or another one; None if none is alive."""
        with self._lock:
            spare = self._waiting.pop(step, None) or self._fork()
        if spare is None or spare.is_alive():
            return spare
        spare.close()
        return None

    def close(self) -> None:
        """End those that nobody took."""
        with self._lock:
            while self._waiting:
                self._waiting.popitem()[1].close()
            while self._servers:
                self._servers.pop().close()

    def _fork(self, modules: Sequence[str] = ()) -> Spare | None:
        server = self._server_of(modules)
        if server is None:
            return None
        try:
            return server.fork()
        except ConnectionError:  # it was killed: the next step has another
            self._servers.remove(server)
            server.close()
            return None

    def _server_of(self, modules: Sequence[str]) -> _Server | None:
        """A server that has imported the modules. A step without modules gets a server without any, because libraries
        check which others are loaded."""
        wanted = set(modules)
        fit = (each for each in self._servers if wanted <= each.modules and bool(wanted) == bool(each.modules))
        return next(fit, None)


class _Server:
    def __init__(self, modules: Sequence[str]) -> None:
        from drivetrain.targets.local.containers import mounts
        from drivetrain.targets.local.containers.supervised import clean_environment

        environment = clean_environment("")
        del environment["TMPDIR"]  # each job has its own
        self.modules = set(modules)
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(mounts.SUPERVISOR), "--serve", ",".join((*STANDARD, *modules))],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,  # what a fork's is, too
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,  # Ctrl-C reaches the runner, which decides
            )

    def fork(self) -> Spare:
        """
        Raises:
            ConnectionError: the server has ended.
        """
        from drivetrain.targets.local.containers.supervised import Spare

        job, written = os.pipe()
        read, told = os.pipe()
        spare = Spare(written, read)
        try:
            socket.send_fds(self._requests, [b"fork"], [job, told])
        except BaseException:
            spare.close()
            raise
        finally:
            os.close(job)
            os.close(told)
        return spare

    def close(self) -> None:
        """The server ends when its requests end, or at once while it is loading; waiting supervisors end with it."""
        self._requests.close()
        self._process.terminate()
        self._process.communicate()
