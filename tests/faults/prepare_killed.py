"""SIGKILL prepare_data at a random instant, mostly while it puts the new sets in the place of earlier ones."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.harness.families import Found, Trial
from tests.faults.harness.program_killed import killed

FAULT = "prepare_data killed at any instant, mostly as it publishes: each set the old or the new one, whole"
TRIALS, QUICK, AT_ONCE = 100, 3, 2
PRELOAD = ("pyarrow.parquet", "pyarrow.csv", "pyarrow.json", "drivetrain.components.prepare_data")
PATIENCE_S = 120.0

SIDES, QUARANTINE = ("train", "validation", "test"), "quarantine"
SETS = (*SIDES, QUARANTINE)
_ROWS, _MORE = 2000, 300
# Rules put rows of both nights aside: keys 0 to 6, and 2241 on.
_RULES = {"columns": {"x": {"min": 1, "max": {"is": 320, "then": "quarantine", "share": 0.5}}}, "then": "quarantine"}
_ASIDE = 7 + 59
# So few that most hashes lie on the disk.
_RUN_HASHES = 200
# The changes of names and times that publishing makes are about so many.
_CHANGES = 50


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
    read = {name: [Manifest.read(folder / name / side).content_hash for side in SETS] for name in ("old", "new")}
    hashes = dict(zip(SETS, zip(read["old"], read["new"], strict=True), strict=True))
    return Shared(raw, folder / "old", hashes, seconds)


def trial(given: Trial, shared: Shared) -> Found:
    from drivetrain.base.errors import InputError
    from drivetrain.data.manifest import Manifest
    from drivetrain.data.versions import versions

    out = given.folder / "out"
    shutil.copytree(shared.old, out)
    began = time.time() - 1
    program = partial(_prepare, shared.raw, out, out)
    instant, was_killed = killed(program, given.draw, seconds=shared.seconds, changes=_CHANGES)
    did = Counter([f"killed {instant}" if was_killed else "ended before"])
    violations: list[str] = []
    for side in SETS:
        try:
            found = Manifest.read(out / side)
        except InputError as error:
            violations.append(f"killed {instant}: {side} is refused: {error}")
            continue
        if found.content_hash not in shared.hashes[side]:
            violations.append(f"killed {instant}: {side} is {found.content_hash[:12]}, neither the old nor the new set")
        did.update([f"{side} is {'new' if found.content_hash == shared.hashes[side][1] else 'old'}"])
        dates = {each.manifest.content_hash: each.written for each in versions(out / side)}
        (old,) = versions(shared.old / side)
        if dates.pop(old.manifest.content_hash) != old.written or any(date < began for date in dates.values()):
            violations.append(f"killed {instant}: a version of {side} has another date: {dates}")
    _prepare(shared.raw, out, out if given.draw.random() < 0.5 else None)
    for side in SETS:
        if Manifest.read(out / side).statistics.get("x", {}).get("nulls") or any((out / side).rglob(".*")):
            violations.append(f"killed {instant}: the next run left {sorted((out / side).rglob('.*'))}")
    total = sum(Manifest.read(out / side).rows for side in SIDES)
    if total != _ROWS + _MORE - _ASIDE:
        violations.append(f"killed {instant}: the next run came to {total} rows")
    return Found(violations, did)


def _prepare(raw: Path, out: Path, previous: Path | None) -> None:
    from drivetrain.components.prepare_data import prepare_data
    from drivetrain.data import hash_runs

    hash_runs.RUN_HASHES = _RUN_HASHES
    folders = (out / side for side in SIDES)
    with contextlib.redirect_stdout(io.StringIO()):
        ruled: Any = {"rules": json.dumps(_RULES), "quarantine": out / QUARANTINE}
        prepare_data(raw, *folders, previous, key="id", label="label", rows_per_shard=300, incremental=True, **ruled)


def _write(path: Path, keys: range) -> None:
    path.write_text("id,label,x\n" + "".join(f"{key},{key % 3},{key / 7}\n" for key in keys), encoding="utf-8")
