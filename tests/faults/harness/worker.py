"""A process that makes the trials of one family, one at a time, as it is told their numbers."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from tests.faults.harness.families import Family, Found, Trial, family
from tests.faults.harness.progress import Made


def work(name: str, seed: int, scratch: Path, kept: Path, numbers: Connection, lifeline: Connection) -> None:
    """Answer each number with a Made, until None comes. First it answers what went wrong in the preparation, or None.

    Args:
        scratch: a folder of this process's own.
        kept: where the folders of violating trials go.
        lifeline: its other end is the campaign's.
    """
    _end_with(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign is told, and ends us
    try:
        found = family(name)
        place = scratch / "shared"
        place.mkdir(parents=True)
        shared = found.prepare(place)
    except Exception:
        numbers.send(traceback.format_exc())
        return
    numbers.send(None)
    while (number := numbers.recv()) is not None:
        numbers.send(make(found, number, seed, shared, scratch, kept))


def _end_with(lifeline: Connection) -> None:
    """Die when the campaign does, however it does. (Our parent is the process that we were forked from, which lives as
    long as we do.)"""
    descriptor = lifeline.fileno()
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    # The kernel then sends SIGIO, which ends a process, when the other end is closed.
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if lifeline.poll():  # it was closed before
        os._exit(1)


def make(found: Family, number: int, seed: int, shared: object, scratch: Path, kept: Path) -> Made:
    """One trial."""
    folder = scratch / f"trial-{number}"
    folder.mkdir(parents=True)
    began = time.monotonic()
    try:
        came = found.trial(Trial(number, seed, folder, found.draw(seed, number)), shared)
    except Exception:
        came = Found([f"the trial itself failed: {traceback.format_exc()}"])
    seconds = round(time.monotonic() - began, 3)
    if came.violations:
        target = kept / f"{found.name}-{seed}-{number}"
        shutil.rmtree(target, ignore_errors=True)
        kept.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, target)
    else:
        shutil.rmtree(folder)
    return Made(number, seconds, dict(came.did), came.violations)
