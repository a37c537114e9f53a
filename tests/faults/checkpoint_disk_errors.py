"""The disk fails in a save: a call of it with ENOSPC, EIO or EDQUOT, for once or from then on; or the disk is full in
earnest (a tmpfs of a random size, in a mount namespace of its own). The save says so, the earlier checkpoints stand,
what was written in part is removed, and with a disk that works again saving goes on."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.store import Store
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.killing import ROOT
from tests.faults.harness.made_checkpoints import Files, draw_files, load_newest, save

FAULT = "ENOSPC, EIO in a save: an error, the earlier checkpoints stand, saving goes on afterwards"
TRIALS, QUICK, AT_ONCE = 600, 10, 2
_IN_EARNEST = 0.05
_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
# Calls that take room or bring bytes to the disk. Removing takes none, and must go on: nothing could be cleaned up.
_CALLS = ("open", "write", "fsync", "link", "mkdir", "close")


def trial(given: Trial, shared: None) -> Found:
    if given.draw.random() < _IN_EARNEST:
        return _in_earnest(given)
    draw, place = given.draw, FolderPlace(given.folder / "checkpoints")
    store, saved = Store(place), dict[int, Files]()
    for step in range(1, draw.randint(2, 4)):
        saved[step] = draw_files(draw, step)
        save(store, step, saved[step])
    before = place.names()
    files = draw_files(draw, 9)
    with failing(given.folder, 10**9) as whole:
        save(Store(FolderPlace(given.folder / "rehearsal")), 9, files)
    at, number, stays = draw.randrange(whole["calls"]), draw.choice(_ERRORS), draw.random() < 0.5
    what = f"{errno.errorcode[number]} at call {at} of {whole['calls']}{' and from then on' if stays else ''}"
    violations: list[str] = []
    raised = False
    with failing(given.folder / "checkpoints", at, number, stays=stays) as made:
        try:
            save(store, 9, files)
        except OSError as error:
            raised = True
            if error.errno != number:
                violations.append(f"another error: {error!r}")
    if made["failed"] and not raised:
        violations.append("no error, though a call had failed")
    violations += check(place, saved | ({} if raised else {9: files}))
    if raised and place.names() != before:
        violations.append(f"left behind: {sorted(set(place.names()) - set(before))}")
    save(store, 10, files)
    violations += check(place, {10: files})
    return Found([f"{what}: {text}" for text in violations], {errno.errorcode[number]: int(made["failed"] > 0)})


def check(place: FolderPlace, saved: dict[int, Files]) -> list[str]:
    """Hold the newest checkpoint against the newest of those that were saved."""
    loaded, newest = load_newest(Store(place)), max(saved)
    if loaded.quarantined or loaded.passed_by:
        return [f"set aside: {loaded.quarantined}, passed by: {loaded.passed_by}"]
    if (loaded.step, loaded.files) != (newest, saved[newest]):
        return [f"step {loaded.step} is loaded instead of {newest}"]
    return []


@contextmanager
def failing(below: Path, at: int, number: int = 0, *, stays: bool = False) -> Generator[Counter[str]]:
    """Let the call of that number that concerns a folder fail, and those after it, if it `stays` so.

    Gives how many there were so far, and how many of them failed.
    """
    made: Counter[str] = Counter()
    mine: set[int] = set()
    real = {name: getattr(os, name) for name in _CALLS}

    def replaced(name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            concerns = given[0] in mine if isinstance(given[0], int) else str(given[0]).startswith(str(below))
            # What only looks (a folder to fsync, a manifest to read) takes no room.
            takes_room = name != "open" or bool(given[1] & os.O_CREAT)
            fails = False
            if concerns and takes_room:
                fails = made["calls"] == at or (stays and made["calls"] > at)
                made["calls"] += 1
            if name == "close":  # it closes all the same, as Linux does
                mine.discard(given[0])
                real[name](*given, **named)
            if fails:
                made["failed"] += 1
                raise OSError(number, os.strerror(number), str(given[0]))
            # This machine will not lose its power: what matters is that the call was made, and may fail.
            result = None if name in ("close", "fsync") else real[name](*given, **named)
            if name == "open" and concerns:
                mine.add(result)
            return result

        return call

    with mock.patch.multiple(os, **{name: replaced(name) for name in _CALLS}):
        yield made


def _in_earnest(given: Trial) -> Found:
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount"),
            *(sys.executable, "-m", "tests.faults.checkpoint_disk_errors"),
            *(str(given.folder), str(given.draw.randrange(2**31))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return Found([done.stderr.strip()[-1500:]])
    return Found(json.loads(done.stdout), {"full in earnest": 1})


def _main(folder: str, seed: str) -> None:
    draw = random.Random(int(seed))
    size = draw.randrange(40, 400)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder], check=True)
    place = FolderPlace(Path(folder) / "checkpoints")
    store, saved = Store(place), dict[int, Files]()
    violations: list[str] = []
    for step in range(1, 1000):
        files = draw_files(draw, step, longest=30_000)
        before = place.names()
        try:
            save(store, step, files)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                violations.append(f"another error: {error!r}")
            if place.names() != before:
                violations.append(f"left behind: {sorted(set(place.names()) - set(before))}")
            break
        saved[step] = files
    else:
        violations.append("the disk never became full")
    if saved:
        violations += check(place, saved)
    subprocess.run(["mount", "-o", "remount,size=4096k", folder], check=True)
    save(store, 1000, {"weights": b"1"})
    violations += check(place, {1000: {"weights": b"1"}})
    print(json.dumps([f"{size} KiB: {text}" for text in violations]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
