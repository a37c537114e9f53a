"""SIGKILL the runner at a random instant, between and inside steps; the same command then ends as if nothing was."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path

from drivetrain.pipelines.targets.local.home import Home
from tests.faults.harness import killing
from tests.faults.harness.killing import Outcome, differences, kill_after, outcome

FAULT = "local runner killed between and inside steps: the resumed run ends alike"
TRIALS = 200
QUICK = 20
# A resumed run is killed, too, now and then.
_KILL_AGAIN = 0.3
_MOST_KILLS = 4


def run(trials: int, seed: int) -> tuple[int, list[str]]:
    draw = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="drivetrain-faults-"))
    try:
        home = folder / "whole" / "home"
        code, said = killing.run(home)
        assert code == 0, f"the uninterrupted run failed: {said}"
        whole = outcome(Home(home))
        began = time.monotonic()
        killing.run(folder / "timed" / "home")
        seconds = time.monotonic() - began
        violations: list[str] = []
        for number in range(trials):
            violations += [f"trial {number}: {text}" for text in _trial(folder / f"{number}", draw, seconds, whole)]
            shutil.rmtree(folder / f"{number}", ignore_errors=False)
        return trials, violations
    finally:
        shutil.rmtree(folder)


def _trial(folder: Path, draw: random.Random, seconds: float, whole: Outcome) -> list[str]:
    home = folder / "home"
    violations: list[str] = []
    delays: list[float] = []
    for _ in range(_MOST_KILLS):
        delays.append(draw.uniform(0.0, seconds))
        at_work, left = kill_after(delays[-1], home)
        violations += [f"lives 5 s after the kill: {process}" for process in left]
        if not at_work or draw.random() > _KILL_AGAIN:
            break
    code, said = killing.run(home)
    if code != 0:
        # The last kill may have come after the end of the run: then there is nothing to resume, and a new run starts.
        return [*violations, f"the resumed run ended with {code}: {said.strip()[-500:]} (kills at {delays})"]
    try:
        found = differences(outcome(Home(home)), whole)
    except AssertionError as error:
        found = [str(error)]
    return [*violations, *(f"{text} (kills at {delays})" for text in found)]
