"""SIGKILL prepare_data at a random instant, mostly while it puts the new sets in the place of earlier ones."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.harness.families import Found, Trial

FAULT = "prepare_data killed at any instant, mostly as it publishes: each set the old or the new one, whole"
TRIALS, QUICK, AT_ONCE = 100, 8, 2
PRELOAD = ("pyarrow.parquet", "pyarrow.csv", "pyarrow.json", "drivetrain.components.prepare_data")
PATIENCE_S = 120.0

SIDES = ("train", "validation", "test")
_ROWS, _MORE = 2000, 300
# The share of kills at any instant; the others fall into the changes that publishing makes, one of about so many.
_ANY_INSTANT, _CHANGES = 0.3, 40


@dataclass(frozen=True)
class Shared:
    """Two nights of data, the sets of the first one, and by side the content hashes of both."""

    raw: Path
    old: Path
    hashes: dict[str, tuple[str, str]]
    seconds: float


def prepare(folder: Path) -> Shared:
    from drivetrain.data.manifest import Manifest

    raw = folder / "raw"
    raw.mkdir(parents=True)
    _write(raw / "1.csv", range(_ROWS))
    _prepare(raw, folder / "old", None)
    _write(raw / "2.csv", range(_ROWS, _ROWS + _MORE))
    shutil.copytree(folder / "old", folder / "new")
    began = time.monotonic()
    _prepare(raw, folder / "new", folder / "new")
    seconds = time.monotonic() - began
    read = {name: [Manifest.read(folder / name / side).content_hash for side in SIDES] for name in ("old", "new")}
    hashes = dict(zip(SIDES, zip(read["old"], read["new"], strict=True), strict=True))
    return Shared(raw, folder / "old", hashes, seconds)


def trial(given: Trial, shared: Shared) -> Found:
    from drivetrain.base.errors import InputError
    from drivetrain.data.manifest import Manifest

    out = given.folder / "out"
    shutil.copytree(shared.old, out)
    instant, killed = _killed(shared, out, given.draw)
    did = Counter([f"killed {instant}" if killed else "ended before"])
    violations: list[str] = []
    for side in SIDES:
        try:
            found = Manifest.read(out / side)
        except InputError as error:
            violations.append(f"killed {instant}: {side} is refused: {error}")
            continue
        if found.content_hash not in shared.hashes[side]:
            violations.append(f"killed {instant}: {side} is {found.content_hash[:12]}, neither the old nor the new set")
        did.update([f"{side} is {'new' if found.content_hash == shared.hashes[side][1] else 'old'}"])
    _prepare(shared.raw, out, out if given.draw.random() < 0.5 else None)
    for side in SIDES:
        if Manifest.read(out / side).statistics["x"]["nulls"] or any((out / side).rglob(".*")):
            violations.append(f"killed {instant}: the next run left {sorted((out / side).rglob('.*'))}")
    total = sum(Manifest.read(out / side).rows for side in SIDES)
    if total != _ROWS + _MORE:
        violations.append(f"killed {instant}: the next run came to {total} rows")
    return Found(violations, did)


def _killed(shared: Shared, out: Path, draw: random.Random) -> tuple[str, bool]:
    """Prepare in a process that is killed at an instant that is drawn; its name, and whether it was."""
    change = 0 if draw.random() < _ANY_INSTANT else draw.randrange(1, _CHANGES)
    pid = os.fork()
    if pid == 0:
        try:
            if change:
                _die_at(change)
            _prepare(shared.raw, out, out)
        finally:
            os._exit(0)
    if not change:
        time.sleep(draw.uniform(0, shared.seconds))
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return (f"at change {change}" if change else "at any instant"), os.WIFSIGNALED(status)


def _die_at(change: int) -> None:
    """Kill this process at the change of this number (of names in its folders), before it is made."""
    made = 0

    def counting(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal made
        if event in ("os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir"):
            made += 1
            if made == change:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(counting)


def _prepare(raw: Path, out: Path, previous: Path | None) -> None:
    from drivetrain.components.prepare_data import prepare_data

    folders = (out / side for side in SIDES)
    with contextlib.redirect_stdout(io.StringIO()):
        prepare_data(raw, *folders, previous, key="id", label="label", rows_per_shard=300, incremental=True)


def _write(path: Path, keys: range) -> None:
    path.write_text("id,label,x\n" + "".join(f"{key},{key % 3},{key / 7}\n" for key in keys), encoding="utf-8")
