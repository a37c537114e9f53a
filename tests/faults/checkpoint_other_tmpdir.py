"""TMPDIR on another device, and a writer killed at any instant: a rename between devices is a copy, which can be torn.
The store never goes there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.made_checkpoints import Files, load_newest, save

FAULT = "TMPDIR on another device, the writer killed at any instant: nothing torn, TMPDIR never used"
TRIALS, QUICK, AT_ONCE = 200, 3, 2
_OTHER_DEVICE = Path("/dev/shm")
_LONGEST_S = 0.15


def trial(given: Trial, shared: None) -> Found:
    other = Path(tempfile.mkdtemp(dir=_OTHER_DEVICE))
    try:
        if other.stat().st_dev == given.folder.stat().st_dev:
            return Found([f"{other} and {given.folder} are on one device: nothing was tried"])
        # Every other time there is not even such a folder.
        exists = given.draw.random() < 0.5
        violations = _try(given, other if exists else other / "not there")
        if left := sorted(path.name for path in other.rglob("*")):
            violations.append(f"TMPDIR was used: {left}")
        return Found(violations, {"kills": 1})
    finally:
        shutil.rmtree(other)


def _try(given: Trial, temporary: Path) -> list[str]:
    place = FolderPlace(given.folder / "checkpoints")
    seed = given.draw.randrange(2**31)
    delay = given.draw.uniform(0, _LONGEST_S)
    reader, writer = os.pipe()
    follow = follows_parent(signal.SIGKILL)
    child = os.fork()
    if not child:
        follow()
        _write_for_ever(place, seed, temporary, writer)
    os.close(writer)
    try:
        with open(reader, "rb", buffering=0) as said:
            said.read(1)  # it has begun
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            committed = len(said.read())
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    store = Store(place)
    loaded = load_newest(store)
    violations: list[str] = []
    # One more may have been committed than could be said.
    if loaded.step not in (committed, committed + 1) and (loaded.step, committed) != (-1, 0):
        violations.append(f"{committed} were committed, and step {loaded.step} is loaded")
    if loaded.quarantined or loaded.passed_by:
        violations.append(f"torn: {loaded.quarantined}, {loaded.passed_by}")
    if loaded.step > 0 and loaded.files != _files(seed, loaded.step):
        violations.append(f"step {loaded.step} holds something else")
    store.clean()
    if left := [name for name in place.names() if not name.startswith(tuple(store.folder(n) for n in store.steps()))]:
        violations.append(f"left behind: {left}")
    return violations


def _write_for_ever(place: FolderPlace, seed: int, temporary: Path, say: int) -> None:
    """In a process of its own: a byte when it begins, and one for each commit."""
    try:
        os.environ["TMPDIR"] = str(temporary)
        tempfile.tempdir = None
        store, step = Store(place), 0
        os.write(say, b".")
        while True:
            step += 1
            save(store, step, _files(seed, step))
            os.write(say, b".")
            store.retain(Retention(last=2))
    finally:
        os._exit(1)


def _files(seed: int, step: int) -> Files:
    draw = random.Random(f"{seed}/{step}")
    return {f"rank-{rank}": draw.randbytes(draw.randrange(50_000)) for rank in range(2)}
