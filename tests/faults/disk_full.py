"""A disk that is full: one clear error, a ledger that is whole, and a run that goes on once there is room.

The disk is a tmpfs of a random size in a mount namespace of the trial's own.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.harness.killing import ROOT

FAULT = "disk full at a random fill level: one error, ledger whole, the run goes on"
TRIALS = 40
QUICK = 4
_SMALLEST_KIB, _LARGEST_KIB, _ENOUGH_KIB = 40, 900, 65_536


def run(trials: int, seed: int) -> tuple[int, list[str]]:
    draw = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="drivetrain-faults-"))
    violations: list[str] = []
    try:
        for number in range(trials):
            size = draw.randrange(_SMALLEST_KIB, _LARGEST_KIB)
            mount = folder / f"{number}"
            mount.mkdir()
            done = subprocess.run(
                [
                    *("unshare", "--user", "--map-root-user", "--mount"),
                    *(sys.executable, "-m", "tests.faults.harness.small_disk"),
                    *(str(mount), str(size), str(_ENOUGH_KIB)),
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            if done.returncode != 0:
                violations.append(f"trial {number} ({size} KiB): {done.stderr.strip()[-1500:]}")
            else:
                violations += [f"trial {number} ({size} KiB): {text}" for text in json.loads(done.stdout)]
        return trials, violations
    finally:
        shutil.rmtree(folder)
