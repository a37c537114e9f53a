"""Supervisors that are started ahead of the steps they will run, so that a step does not wait for an interpreter."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence

# What the start file and a component without imports of its own need of the standard library.
STANDARD = (
    "argparse", "ast", "collections.abc", "contextlib", "dataclasses", "enum", "functools", "hashlib", "importlib",
    "inspect", "json", "math", "pathlib", "re", "runpy", "tarfile", "tempfile", "typing", "zipfile", "zlib",
)  # fmt: skip


class Spares:
    """The supervisors of a run that wait for the job of a step. Threads may share it.

    Each is a child of this process, serves one job, and ends by itself when this process does: then its stdin ends
    before a job has come.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def prepare(self, step: str, modules: Sequence[str] = ()) -> None:
        """Start one for a step, unless one waits for it; it loads the modules, too."""
        with self._lock:
            if step not in self._waiting:
                self._waiting[step] = _start((*STANDARD, *modules))

    def take(self, step: str) -> subprocess.Popen[bytes] | None:
        """The one of a step, which is the caller's now; None where there is none that is alive."""
        with self._lock:
            spare = self._waiting.pop(step, None)
        if spare is None or spare.poll() is None:
            return spare
        _end(spare)
        return None

    def close(self) -> None:
        """End those that nobody took."""
        with self._lock:
            while self._waiting:
                _end(self._waiting.popitem()[1])


def _start(modules: Sequence[str]) -> subprocess.Popen[bytes]:
    from drivetrain.targets.local.containers import mounts
    from drivetrain.targets.local.containers.supervised import clean_environment

    environment = clean_environment("")
    del environment["TMPDIR"]  # each job has its own
    return subprocess.Popen(
        [sys.executable, str(mounts.SUPERVISOR), "--load", ",".join(modules)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        start_new_session=True,  # Ctrl-C reaches the runner, which decides
    )


def _end(spare: subprocess.Popen[bytes]) -> None:
    """It has started nothing, so nothing is lost."""
    spare.kill()
    spare.communicate()
