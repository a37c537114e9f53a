"""Stop a run that another process is running."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import status_word
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger

# A runner handles both (and Ctrl-C's SIGINT, which every Python program does) as long as it is at work.
_HANDLED = (signal.SIGTERM, signal.SIGHUP)


def stop(home: Home, execution: str) -> str:
    """Ask the process that runs an execution to end it, as Ctrl-C there does: its jobs get SIGTERM and a grace, in
    which a training saves a checkpoint; asked a second time, it gives them no more. Returns at once.

    Returns:
        The execution's id.

    Raises:
        UserError: nobody runs it, or a process that cannot be asked from here.
    """
    with Ledger(home) as ledger:
        row = ledger.execution(execution)
    if row.status == "Interrupted":
        raise UserError(
            f"Run {row.id} was interrupted: no process runs it, there is nothing to stop. Go on with it: drivetrain "
            f"runs resume {row.id}"
        )
    if row.status != "Executing":
        raise UserError(f"Run {row.id} has ended ({status_word(row.status)}); there is nothing to stop.")
    lock = home.lock_file(row.id)
    number = lock.read_text(encoding="utf-8")
    if not number:  # it is written once the lock is held
        raise UserError(f"Run {row.id} is just being started. Try again.")
    pid = int(number)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        raise UserError(_elsewhere(row.id, pid)) from None
    try:
        # The descriptor is of one process, even if it ends now and another one gets its number.
        if not _has_open(pid, lock):
            raise UserError(_elsewhere(row.id, pid))
        if not _handles(pid):
            raise UserError(
                f"Run {row.id} cannot be asked to stop: process {pid} runs it in a thread that signals do not reach, "
                "or is about to start it. Stop it there, or try again."
            )
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except PermissionError:
        raise UserError(f"Run {row.id} is run by process {pid} of another user. Ask them to stop it.") from None
    except (FileNotFoundError, ProcessLookupError):
        raise UserError(f"Run {row.id} has ended just now; there is nothing to stop.") from None
    finally:
        os.close(process)
    return row.id


def _elsewhere(execution: str, pid: int) -> str:
    return (
        f"Run {execution} is run by a process (pid {pid}) on another machine, or in another container. Stop it there: "
        f"drivetrain runs stop {execution}"
    )


def _has_open(pid: int, file: Path) -> bool:
    """Return True if a process of this machine has a file open: a number alone may be that of a process elsewhere."""
    there = file.stat()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it is closed by now, or of nothing that has a path
            if os.path.samestat(descriptor.stat(), there):
                return True
    return False


def _handles(pid: int) -> bool:
    """Return True if a process has handlers for the signals that a runner handles."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1], 16)
    return all(caught >> (number - 1) & 1 for number in _HANDLED)
