"""Tasks of a run as forks of one interpreter (drivetrain/steps/kubeflow/forks.py), in the process that has kfp."""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from drivetrain.targets.kubeflow.compile.tasks import DOCUMENT

Run = Callable[[Sequence[str], Mapping[str, str]], int]
PROGRAM = "drivetrain.steps.kubeflow.forks"
# The beginning of every task's command (start_command of ../compile/tasks.py).
_CODE = re.compile(r'c=([0-9a-f]{64}); test "\$DRIVETRAIN_UNPACKED" = \$c ')


class TaskForks:
    """Runs commands of our tasks without a shell and an interpreter of their own.

    Args:
        otherwise: kfp's way, for all other commands, and where the interpreter is gone.
        unpacked: the SHA-256 of each archive of code -> the folders from which its tasks import, the package's first,
            the user's source the second. The first rooms of the package are the same in all.
    """

    def __init__(self, otherwise: Run, unpacked: Mapping[str, Sequence[str]]) -> None:
        self.otherwise, self.unpacked = otherwise, unpacked
        package = next(iter(unpacked.values()))[0]
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [sys.executable, "-m", PROGRAM, str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": package}
        self.process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def run(self, full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
        """The exit code of a task's command, once it has ended; as kfp's `run_local_subprocess`.

        Args:
            full_command: `sh -c TEXT EXECUTOR-INPUT`.
            env_vars: the container's.
        """
        code = _CODE.match(full_command[2]) if DOCUMENT in env_vars else None
        if code is None or code[1] not in self.unpacked:
            return self.otherwise(full_command, env_vars)
        folders = self.unpacked[code[1]]
        env_vars = {
            **env_vars,
            "DRIVETRAIN_UNPACKED": code[1],
            "DRIVETRAIN_SOURCE": folders[1],
            "PYTHONPATH": os.pathsep.join(folders),
        }
        ended = self._forked(full_command[3], {**os.environ, **env_vars})
        return self.otherwise(full_command, env_vars) if ended is None else ended

    def _forked(self, executor_input: str, environment: Mapping[str, str]) -> int | None:
        """None where the interpreter is gone, and nothing has begun."""
        given, giving = os.pipe()
        told, telling = os.pipe()
        try:
            socket.send_fds(self.requests, [b"!"], [given, telling])
        except OSError:
            os.close(giving)
            os.close(told)
            return None
        finally:
            os.close(given)
            os.close(telling)
        with contextlib.suppress(BrokenPipeError), open(giving, "wb") as file:  # its end is told below
            marshal.dump((executor_input, dict(environment)), file)
        with open(told, "rb") as file:
            return int(file.read() or 137)  # killed, as the interpreter was

    def end(self) -> None:
        """No more tasks will come."""
        self.requests.close()
        self.process.wait()
