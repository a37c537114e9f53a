"""The power goes at any instant of a run, and the disk has kept any part of what was not fsynced; the same command, and
then the one of the night before, end as they would have: nothing is wedged, nothing is wrong."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from tests.faults.harness import killing, power_loss
from tests.faults.harness.families import Found, Trial

FAULT = "power lost in a run, un-fsynced writes and names dropped: the next run ends alike"
TRIALS = 60
QUICK = 1
AT_ONCE = 2
MISSING = power_loss.missing()
_LIKELY = (0.0, 0.3, 0.7, 0.95)
_NIGHTS: tuple[str, ...] = ("monday", "tuesday")
_SIGKILLED = -9


class Shared(NamedTuple):
    library: Path
    instants: int
    whole: dict[str, dict[str, str]]


def prepare(folder: Path) -> Shared:
    """What undisturbed nights make, and how many instants they have."""
    library = power_loss.built(folder)
    home, shadow = folder / "whole" / "home", folder / "shadow"
    done = power_loss.recorded(_command(home, *_NIGHTS), library, home, shadow)
    assert done.returncode == 0, f"the undisturbed run failed: {done.stderr}"
    whole = dict(zip(_NIGHTS, map(json.loads, done.stdout.splitlines()), strict=True))
    assert all(len(each) == 5 for each in whole.values()), whole
    return Shared(library, power_loss.instants(shadow), whole)


def trial(given: Trial, shared: Shared) -> Found:
    home, shadow = given.folder / "home", given.folder / "shadow"
    at, likely = given.draw.randint(1, shared.instants), given.draw.choice(_LIKELY)
    done = power_loss.recorded(_command(home, *_NIGHTS), shared.library, home, shadow, at)
    if done.returncode != _SIGKILLED:  # steps side by side may take fewer turns than the first time
        ended = f"ended with {done.returncode}: {done.stderr[-500:]}"
        return Found([] if done.returncode == 0 else [ended], {"ended before": 1})
    violations = [f"lives 5 s after the kill: {process}" for process in killing.left_in(home)]
    if home.exists():
        power_loss.lose_power(home, shadow, given.draw, likely)
        shutil.copytree(home, given.folder / "lost", symlinks=True)  # to be looked at
    for night in reversed(_NIGHTS):
        again = killing.to_its_end(_command(home, night))
        if again.returncode != 0:
            violations.append(f"wedged on {night}: {again.stderr.strip()[-700:]}")
        elif (found := json.loads(again.stdout)) != shared.whole[night]:
            violations.append(f"wrong on {night}: {found}")
    return Found([f"instant {at} of {shared.instants} ({likely}): {text}" for text in violations], {"losses": 1})


def _command(home: Path, *nights: str) -> list[str]:
    return [sys.executable, "-m", "tests.faults.harness.home_workload", str(home), *nights]
