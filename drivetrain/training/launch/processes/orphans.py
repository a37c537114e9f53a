"""The processes that a program of the user's own started and did not wait for.

A launcher script may end, or be ended by SIGTERM, before the processes that it started: a shell dies at once and leaves
its torchrun behind. Linux hands such orphans to the nearest ancestor that asked for them (prctl(2),
PR_SET_CHILD_SUBREAPER), so that it can end them in order.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_adopts = False


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    global _adopts
    _adopts = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def end_orphans(seconds: float) -> int:
    """End every process that is left below this one, if it adopts orphans; returns how many were told to leave.

    Only direct children are sent SIGTERM: they pass it on as they see fit (torchrun does), and whose parent ended
    without that becomes a direct child in turn. After `seconds` all are sent SIGKILL. Every process that was started
    with `subprocess` must have been waited for.
    """
    if not _adopts:
        return 0
    deadline = time.monotonic() + seconds
    told: set[int] = set()
    while children := _reaped(_children()):
        left = deadline - time.monotonic()
        for child in children - (told if left > 0 else set()):
            _send(child, signal.SIGTERM if left > 0 else signal.SIGKILL)
            told.add(child)
        wait_for_an_end(children, max(left, 0.0) if left > 0 else 1.0)
    return len(told)


def _children() -> set[int]:
    """Direct children, the ended ones included."""
    found: set[int] = set()
    own = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, ProcessLookupError):  # it ended in between
                continue
            # pid (name) state ppid ...; the name may hold anything, parentheses too
            if int(stat.rpartition(")")[2].split()[1]) == own:
                found.add(int(entry.name))
    return found


def _reaped(children: set[int]) -> set[int]:
    """Those that still run; the others' zombies are cleared away."""
    running: set[int] = set()
    for child in children:
        try:
            if os.waitpid(child, os.WNOHANG)[0] == 0:
                running.add(child)
        except ChildProcessError:  # another thread has waited for it
            continue
    return running


def _send(child: int, number: signal.Signals) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return  # it has just ended


def wait_for_an_end(children: Iterable[int], seconds: float) -> None:
    """Wait until one of these processes has ended, so many seconds at most."""
    descriptors: list[int] = []
    try:
        for child in children:
            try:
                descriptors.append(os.pidfd_open(child))
            except ProcessLookupError:
                return
        select.select(descriptors, [], [], seconds)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
