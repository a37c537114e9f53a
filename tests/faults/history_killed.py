"""SIGKILL a program at a random instant while it changes the history of a data set."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.harness.families import Found, Trial
from tests.faults.harness.program_killed import killed

FAULT = "the history of a data set changed by a program that is killed: the old or the new one, whole"
TRIALS, QUICK, AT_ONCE = 100, 3, 2
PRELOAD = ("numpy", "drivetrain.data.history", "drivetrain.registry.evidence")
PATIENCE_S = 60.0

_NIGHTS, _COLUMNS = 20, 400
# The changes of names and times that a writing makes are about so many.
_CHANGES = 3


@dataclass(frozen=True)
class Shared:
    """The file before, and how long a change takes."""

    old: bytes
    seconds: float


def prepare(folder: Path) -> Shared:
    path = folder / "history.npz"
    for number in range(_NIGHTS - 1):
        _add(path, number)
    began = time.monotonic()
    _add(path, _NIGHTS - 1)
    return Shared(path.read_bytes(), time.monotonic() - began)


def trial(given: Trial, shared: Shared) -> Found:
    from drivetrain.base.errors import InputError
    from drivetrain.data.history import History

    path = given.folder / "history" / "history.npz"
    path.parent.mkdir()
    path.write_bytes(shared.old)
    instant, was_killed = killed(partial(_add, path, _NIGHTS), given.draw, seconds=shared.seconds, changes=_CHANGES)
    did = Counter([f"killed {instant}" if was_killed else "ended before"])
    try:
        found = len(History.from_bytes(path.read_bytes(), str(path)))
    except InputError as error:
        return Found([f"killed {instant}: {error}"], did)
    did.update(["the new one" if found > _NIGHTS else "the old one"])
    violations = [] if path.read_bytes() == shared.old or found == _NIGHTS + 1 else ["neither the old nor the new one"]
    _add(path, _NIGHTS)
    if len(History.from_bytes(path.read_bytes(), str(path))) != _NIGHTS + 1 or [
        each.name for each in path.parent.iterdir()
    ] != [path.name]:
        violations.append(f"killed {instant}: the next change left {sorted(path.parent.iterdir())}")
    return Found(violations, did)


def _add(path: Path, number: int) -> None:
    import numpy as np

    from drivetrain.data.history import History
    from drivetrain.data.profile import STATISTICS, Night
    from drivetrain.registry.evidence import change_evidence

    names = tuple(f"c{place}" for place in range(_COLUMNS))
    values = {name: np.random.default_rng(number).normal(size=_COLUMNS) for name in STATISTICS}
    day = datetime.date(2026, 11, 1) + datetime.timedelta(days=number)
    night = Night(day=day, rows=number, content_hash=f"{number:064d}", columns=names, values=values)

    def added(kept: bytes) -> bytes:
        return History.from_bytes(kept, str(path)).append(night).to_bytes()

    change_evidence(str(path), added)
