"""A process that makes the trials of one family, one at a time, as it is told their numbers."""

from __future__ import annotations

import shutil
import signal
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from drivetrain.training_scripts.launching.parent import follow_parent
from tests.faults.harness.families import Family, Found, Trial, family
from tests.faults.harness.progress import Made


def work(name: str, seed: int, scratch: Path, kept: Path, numbers: Connection) -> None:
    """Answer each number with a Made, until None comes. First it answers what went wrong in the preparation, or None.

    Args:
        scratch: a folder of this process's own.
        kept: where the folders of violating trials go.
    """
    follow_parent(signal.SIGKILL)
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
