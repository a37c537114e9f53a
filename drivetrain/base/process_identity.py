"""The unique identity of a process of this machine: the boot, the process table, its number, and when it started.

proc(5) and pid_namespaces(7) document where Linux says so. Texts are empty elsewhere.
"""

from __future__ import annotations

import os


def boot_id() -> str:
    """The kernel's name for the time since it booted."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def process_table() -> str:
    """The PID namespace: the same number means the same process only in one table."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except FileNotFoundError:
        return ""


def start_time(pid: int, *, zombie: bool = False) -> int | None:
    """Clock ticks after boot at which a process started; None if it does not exist or, unless `zombie`, is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(b") ")[2].split()  # the name before may hold anything
    return None if fields[0] in (b"Z", b"X") and not zombie else int(fields[19])
