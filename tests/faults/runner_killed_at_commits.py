"""SIGKILL the runner exactly where it is weakest: before and after each commit of its ledger, and each move of an
output to its place. Random instants hit these windows of microseconds too seldom."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from drivetrain.run_store.home import Home
from tests.faults.harness import killing
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.killing import Outcome

FAULT = "local runner killed at each commit and each move of an output: ends alike"
TRIALS = 200
QUICK = 2
AT_ONCE = 2
_SIGKILLED = -9


def prepare(folder: Path) -> tuple[Outcome, int]:
    """What an uninterrupted run makes, and how many instants it has."""
    home = folder / "whole" / "home"
    done = _crash(home)
    assert done.returncode == 0, f"the uninterrupted run failed: {done.stderr}"
    return killing.outcome(Home(home)), int(done.stdout)


def trial(given: Trial, shared: tuple[Outcome, int]) -> Found:
    whole, instants = shared
    # Each once before one comes again, in an order that the seed decides.
    order = random.Random(given.seed).sample(range(1, instants + 1), instants)
    at = order[given.number % instants]
    home = given.folder / "home"
    killed = _crash(home, str(at))
    if killed.returncode != _SIGKILLED:
        # Steps side by side may take fewer turns than the first time.
        ended = f"instant {at}: ended with {killed.returncode}: {killed.stderr[-500:]}"
        return Found([] if killed.returncode == 0 else [ended], {"ended before": 1})
    violations = [f"lives 5 s after the kill: {process}" for process in killing.left_in(home)]
    code, said = killing.run(home)
    if code != 0:
        violations.append(f"the resumed run ended with {code}: {said.strip()[-500:]}")
    else:
        try:
            violations += killing.differences(killing.outcome(Home(home)), whole)
        except AssertionError as error:
            violations.append(str(error))
    return Found([f"instant {at} of {instants}: {text}" for text in violations], {"kills": 1})


def _crash(home: Path, *at: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.harness.crash_points", str(home), *at]
    return killing.to_its_end(command)
