"""SIGKILL the runner exactly where it is weakest: before and after each commit of its ledger, and each move of an
output to its place. Random instants hit these windows of microseconds too seldom."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from drivetrain.pipelines.targets.local.home import Home
from tests.faults.harness import killing
from tests.faults.harness.killing import ROOT, Outcome

FAULT = "local runner killed at each commit and each move of an output: ends alike"
TRIALS = 120
QUICK = 12
_SIGKILLED = -9


def run(trials: int, seed: int) -> tuple[int, list[str]]:
    """At most `trials` of the instants, chosen by the seed."""
    draw = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="drivetrain-faults-"))
    try:
        home = folder / "whole" / "home"
        done = _crash(home)
        assert done.returncode == 0, f"the uninterrupted run failed: {done.stderr}"
        instants = range(1, int(done.stdout) + 1)
        whole = killing.outcome(Home(home))
        violations: list[str] = []
        chosen = sorted(draw.sample(instants, min(trials, len(instants))))
        for at in chosen:
            place = folder / f"{at}"
            violations += [f"instant {at} of {len(instants)}: {text}" for text in _trial(place / "home", at, whole)]
            shutil.rmtree(place)
        return len(chosen), violations
    finally:
        shutil.rmtree(folder)


def _trial(home: Path, at: int, whole: Outcome) -> list[str]:
    killed = _crash(home, str(at))
    if killed.returncode != _SIGKILLED:
        # Steps side by side may take fewer turns than the first time.
        return [] if killed.returncode == 0 else [f"ended with {killed.returncode}: {killed.stderr[-500:]}"]
    violations = [f"lives 5 s after the kill: {process}" for process in killing.left_in(home)]
    code, said = killing.run(home)
    if code != 0:
        return [*violations, f"the resumed run ended with {code}: {said.strip()[-500:]}"]
    try:
        return [*violations, *killing.differences(killing.outcome(Home(home)), whole)]
    except AssertionError as error:
        return [*violations, str(error)]


def _crash(home: Path, *at: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.harness.crash_points", str(home), *at]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
