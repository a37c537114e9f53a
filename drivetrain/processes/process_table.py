"""Processes as /proc shows them (standard library only, quick to import: the supervisor starts with every step).

proc(5) documents the fields of /proc/PID/stat.
"""

from __future__ import annotations

import os


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, parents before children; zombies left out."""
    children: dict[int, list[int]] = {}
    zombies: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat(int(name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(name))
            if fields[0] in ("Z", "X"):
                zombies.add(int(name))
    found, waiting = list[int](), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(below)
    return [process for process in found if process not in zombies]


def send(pid: int, number: int) -> None:
    """A signal to a process that may have ended, or may have become another user's, meanwhile."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (state, parent, ...): the name may hold spaces and brackets."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].decode("ascii").split()
    except OSError:
        return None
