"""How a supervisor ends processes and reports on them (standard library only; see supervision.py)."""

from __future__ import annotations

import os
import time

import process_table

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # without the enumerations around it, which take longer to import than all else here

# Seconds between SIGTERM and SIGKILL for what the command left behind.
LEFTOVER_GRACE_S = 0.5
# A process that survives SIGKILL this long (an uninterruptible read of a dead disk) is reported, not waited for.
UNKILLABLE_S = 30.0


def end_all(signal_all: Callable[[int], None], reap: Callable[[], bool]) -> bool:
    """SIGTERM, LEFTOVER_GRACE_S, then SIGKILL again and again until no descendant is left.

    Without a pid namespace one round is not enough: a process forked between the search and the signal is missed.
    """
    signal_all(signal.SIGTERM)
    started, pause = time.monotonic(), 0.002
    while reap():
        waited = time.monotonic() - started
        if waited > UNKILLABLE_S:
            return False
        if waited > LEFTOVER_GRACE_S:
            signal_all(signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)
    return True


def kill_all(signal_all: Callable[[int], None], reap: Callable[[], bool]) -> bool:
    """SIGKILL at once, as when a machine is taken away: no process gets a chance to clean up."""
    started, pause = time.monotonic(), 0.001
    while True:
        signal_all(signal.SIGKILL)
        if not reap():
            return True
        if time.monotonic() - started > UNKILLABLE_S:
            return False
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)


def signal_namespace(number: int) -> None:
    """Signal all processes of the pid namespace whose first process is this one: one call, so no fork escapes it."""
    process_table.send(-1, number)


def signal_descendants(number: int) -> None:
    for pid in process_table.descendants(os.getpid()):
        process_table.send(pid, number)


def reap_orphans() -> bool:
    """Collect what the manager left; False when there is nothing (any more)."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def ended(status: int) -> dict[str, int]:
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status)}


def write(text: str, log: int = 2) -> bool:
    """Write the text, and return True if it could be written."""
    try:
        os.write(log, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return False  # a full disk must not change how the job ends
    return True
