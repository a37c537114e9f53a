"""A process that must not outlive its parent.

torchrun gives each rank a session of its own, so ending a process group does not end a job. Linux can: a process asks
to be sent a signal when its parent dies (prctl(2), PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

PARENT = "DRIVETRAIN_PARENT_PID"
_PR_SET_PDEATHSIG = 1


def announce_parent(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child that is to end with this process."""
    return {**environment, PARENT: str(os.getpid())}


def die_with_parent(death_signal: signal.Signals) -> None:
    """Ask for `death_signal` when the process that announced itself as the parent dies.

    A process that was started by hand has no announced parent and may go on after its shell is closed.
    """
    announced = os.environ.pop(PARENT, None)  # a grandchild's parent is another one
    if announced is None or not sys.platform.startswith("linux"):
        return
    follow_parent(death_signal)
    if os.getppid() != int(announced):  # it died before the request was in place
        os.kill(os.getpid(), death_signal)


def follows_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """For subprocess.Popen's `preexec_fn`: a child of this process, whatever program it becomes, ends with it."""
    library, parent = _library(), os.getpid()

    def request() -> None:
        library.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:
            os.kill(os.getpid(), death_signal)

    return request


def follow_parent(death_signal: signal.Signals) -> None:
    """Ask for `death_signal` when the parent dies; for a parent that does not announce itself (mpirun)."""
    _library().prctl(_PR_SET_PDEATHSIG, int(death_signal))


def _library() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
