"""A disk that is full: one clear error, a ledger that is whole, and a run that goes on once there is room.

The disk is a tmpfs of a random size in a mount namespace of the trial's own.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.faults.harness.families import Found, Trial
from tests.faults.harness.killing import ROOT

FAULT = "disk full at a random fill level: one error, ledger whole, the run goes on"
TRIALS = 40
QUICK = 2
AT_ONCE = 2
_SMALLEST_KIB, _LARGEST_KIB, _ENOUGH_KIB = 40, 900, 65_536


def trial(given: Trial, shared: None) -> Found:
    size = given.draw.randrange(_SMALLEST_KIB, _LARGEST_KIB)
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount"),
            *(sys.executable, "-m", "tests.faults.harness.small_disk"),
            *(str(given.folder), str(size), str(_ENOUGH_KIB)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return Found([f"with {size} KiB: {done.stderr.strip()[-1500:]}"])
    return Found([f"with {size} KiB: {text}" for text in json.loads(done.stdout)])
