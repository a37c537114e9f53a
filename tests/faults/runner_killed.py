"""SIGKILL the runner at a random instant, between and inside steps; the same command then ends as if nothing was."""

from __future__ import annotations

import time
from pathlib import Path

from drivetrain.run_store.home import Home
from tests.faults.harness import killing
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.killing import Outcome, differences, kill_after, outcome

FAULT = "local runner killed between and inside steps: the resumed run ends alike"
TRIALS = 200
QUICK = 1
AT_ONCE = 2
# A resumed run is killed, too, now and then.
_KILL_AGAIN = 0.3
_MOST_KILLS = 4


def prepare(folder: Path) -> tuple[Outcome, float]:
    """What an uninterrupted run makes, and how long it takes."""
    home, began = folder / "whole" / "home", time.monotonic()
    code, said = killing.run(home)
    assert code == 0, f"the uninterrupted run failed: {said}"
    seconds = time.monotonic() - began
    return outcome(Home(home)), seconds


def trial(given: Trial, shared: tuple[Outcome, float]) -> Found:
    whole, seconds = shared
    home = given.folder / "home"
    violations: list[str] = []
    delays: list[float] = []
    for _ in range(_MOST_KILLS):
        delays.append(given.draw.uniform(0.0, seconds))
        at_work, left = kill_after(delays[-1], home)
        violations += [f"lives 5 s after the kill: {process}" for process in left]
        if not at_work or given.draw.random() > _KILL_AGAIN:
            break
    did = {"kills": len(delays)}
    code, said = killing.run(home)
    if code != 0:
        # The last kill may have come after the end of the run: then there is nothing to resume, and a new run starts.
        told = f"the resumed run ended with {code}: {said.strip()[-500:]} (kills at {delays})"
        return Found([*violations, told], did)
    try:
        found = differences(outcome(Home(home)), whole)
    except AssertionError as error:
        found = [str(error)]
    return Found([*violations, *(f"{text} (kills at {delays})" for text in found)], did)
