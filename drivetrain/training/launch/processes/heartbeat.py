"""A counter for each process of this host, in shared memory: the process counts its steps, the launcher reads along.

    from drivetrain.training.launch.processes.heartbeat import beat
    beat()          # once a step, or in any loop that may take long: an addition, no system call

A process that has counted once and then counts no more within the launcher's time-out is taken to hang. What never
counts (a user's own script) is never taken to hang for that.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

# The folder of this host's counters, and of what its processes have to say about their end.
FOLDER = "DRIVETRAIN_RANKS_FOLDER"
# The hosts in the order of their ranks, each with as many processes; not set where hosts come and go.
RANK_HOSTS = "DRIVETRAIN_RANK_HOSTS"

_CELLS = 8
_BEATS, _PID, _RANK, _ATTEMPT, _DONE = range(5)
_cells = memoryview(bytearray(_CELLS * 8)).cast("Q")


def beat() -> None:
    """Say that this process is getting on."""
    _cells[_BEATS] += 1


def register(folder: Path, *, local_rank: int, rank: int, attempt: int) -> None:
    """Make this process's counter, at 0; one that an earlier attempt left is replaced."""
    global _cells
    path = folder / f"{local_rank}.beats"
    temporary = path.with_suffix(f".{os.getpid()}")
    with temporary.open("w+b") as file:
        file.truncate(_CELLS * 8)
        cells = memoryview(mmap.mmap(file.fileno(), _CELLS * 8)).cast("Q")
    cells[_PID], cells[_RANK], cells[_ATTEMPT] = os.getpid(), rank, attempt
    temporary.replace(path)
    _cells = cells


def finished() -> None:
    """Say that the program is done: what comes now is only the end of the process."""
    _cells[_DONE] = 1


@dataclass(frozen=True)
class Heartbeat:
    """The launcher's view of one process."""

    local_rank: int
    rank: int
    pid: int
    attempt: int
    beats: int
    done: bool


def read_heartbeats(folder: Path) -> list[Heartbeat]:
    """Read the heartbeats of all registered processes, in the order of their ranks."""
    found: list[Heartbeat] = []
    for path in folder.glob("*.beats"):
        cells = memoryview(path.read_bytes()).cast("Q")
        found.append(
            Heartbeat(int(path.stem), cells[_RANK], cells[_PID], cells[_ATTEMPT], cells[_BEATS], bool(cells[_DONE]))
        )
    return sorted(found, key=lambda one: one.local_rank)


def process_state(pid: int) -> str:
    """The process's state letter of proc(5); "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
