"""A container without docker: a job as a supervised process tree that sees a folder of the run as /opt/ml. Here is how
the processes of a job are identified, and how those are ended whose runner is gone.

A process is known by its pid together with its start time, since pids are used again.
"""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable

from drivetrain.base.process_identity import boot_id, start_time
from drivetrain.base.records import dataclass

# Stands in the environment of every process of a job, with the job's token.
TOKEN_VARIABLE = "DRIVETRAIN_JOB"
# Seconds for which a process that survives SIGKILL is waited for.
UNKILLABLE_S = 30.0
_LIMIT = b"Max realtime timeout"


@dataclass(frozen=True)
class ProcessRecord:
    """The ledger's record of a supervisor, so that a later run can end what a dead one left.

    `start_time` is field 22 of /proc/PID/stat (clock ticks since boot) and `boot` the kernel's boot id: the three
    together name one process for ever. `token` stands in the environment of every process of the job
    (DRIVETRAIN_JOB) and in a limit that every process inherits (`mark_of`). By it, descendants are found even after
    their supervisor was killed.
    """

    pid: int
    start_time: int
    boot: str
    token: str


def record_of(pid: int, token: str) -> ProcessRecord:
    """The record of a live process (a zombie counts: its pid is still taken).

    Raises:
        ProcessLookupError: there is no such process.
    """
    started = start_time(pid, zombie=True)
    if started is None:
        raise ProcessLookupError(f"no process {pid}")
    return ProcessRecord(pid, started, boot_id(), token)


def alive(record: ProcessRecord) -> bool:
    """Return True if the recorded process still runs (a zombie does not)."""
    return start_time(record.pid) == record.start_time and record.boot == boot_id()


def mark_of(token: str) -> int:
    """The soft limit of time as a real-time process (RLIMIT_RTTIME) that every process of the job has, in microseconds.

    No environment that is cleared, no session, no second fork and no death of a parent takes it off. It limits nothing:
    it is more than 36,000 years, and no process of a job is scheduled in real time.
    """
    return (1 << 60) + int.from_bytes(hashlib.sha256(token.encode()).digest()[:7], "big")


def with_token(token: str) -> list[int]:
    """Processes that belong to the job `token`, by their limit or their environment; zombies left out."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _has_token(int(name), token)]


def temporary_folder(token: str) -> str:
    """The folder for temporary files of one host; its supervisor makes and removes it.

    Short (the path of a socket in it may have 107 characters), and derived from the token.
    """
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"drivetrain-{token}")


def end_survivors(
    records: Iterable[ProcessRecord], *, grace_s: float = 5.0, unkillable_s: float = UNKILLABLE_S
) -> list[ProcessRecord]:
    """End what still runs of jobs whose runner is gone, and return the supervisors that were found alive.

    Each supervisor is asked first (SIGTERM: it ends its whole job within seconds); what lives after `grace_s` seconds
    is killed, and so is every process that carries a job's token. A pid that meanwhile belongs to another process is
    never touched: pid, start time and boot must agree, and the signal goes through a descriptor of that process.
    Their temporary folders are removed. What SIGKILL does not end within `unkillable_s` seconds (an uninterruptible
    read of a dead disk) is told and left.
    """
    this_boot = boot_id()
    ours = [record for record in records if record.boot == this_boot]
    found: list[tuple[ProcessRecord, int]] = []
    for record in ours:
        descriptor = _open(record)
        if descriptor is not None:
            found.append((record, descriptor))
            _send(descriptor, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    for _, descriptor in found:
        if not _ended(descriptor, deadline - time.monotonic()):
            _send(descriptor, signal.SIGKILL)
        os.close(descriptor)
    deadline = time.monotonic() + unkillable_s
    for record in ours:
        while left := [pid for pid in with_token(record.token) if _kill_with_token(pid, record.token)]:
            if time.monotonic() > deadline:
                print(f"drivetrain: processes that cannot be killed were left behind: {left}", file=sys.stderr)
                break
            time.sleep(0.005)  # a killed process is there until the kernel has taken it down
        shutil.rmtree(temporary_folder(record.token), ignore_errors=True)
    return [record for record, _ in found]


def _has_token(pid: int, token: str) -> bool:
    return (_limit(pid) == mark_of(token) or _names(pid, token)) and start_time(pid) is not None


def _limit(pid: int) -> int | None:
    """The soft limit of time as a real-time process; None if it is unlimited or unknown."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            found = next((line for line in file if line.startswith(_LIMIT)), b"")
    except OSError:
        return None  # ended meanwhile
    soft = found.removeprefix(_LIMIT).split()[:1]
    return int(soft[0]) if soft and soft[0].isdigit() else None


def _names(pid: int, token: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{TOKEN_VARIABLE}={token}".encode() in file.read().split(b"\0")
    except OSError:
        return False  # ended meanwhile, or another user's


def _kill_with_token(pid: int, token: str) -> bool:
    """Kill a process if it carries the token; returns whether it did. It may still be terminating."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return pid != os.getpid() and _has_token(pid, token) and _send(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _send(descriptor: int, number: signal.Signals) -> bool:
    """Send a signal to a process that may have ended, or have become another user's, meanwhile; whether it was sent."""
    try:
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _open(record: ProcessRecord) -> int | None:
    """A descriptor of the recorded process, or None when it has ended."""
    try:
        descriptor = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return None
    # Checked after opening: from here on the descriptor cannot come to mean another process.
    if alive(record):
        return descriptor
    os.close(descriptor)
    return None


def _ended(descriptor: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
