"""SIGKILL trainings that the real launcher started, torchrun and all, and let the launcher start them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

FAULT = "the same through the real launcher and torchrun, 2 kills one after the other a trial"
TRIALS, QUICK, AT_ONCE = 25, 1, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 600.0

_KILLS = 2
_START_S = 120.0
# Steps of a start before it is killed: enough that each gets further than the one before.
_FEWEST_STEPS, _MOST_STEPS = 6, 14


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "25", "checkpoint_every": "4steps", "ema_decay": "0.9"}
    cases = [Case(f"{size} ranks", size, 4, common) for size in (2, 1)]
    return training.References(cases, data, folder)


def trial(given: Trial, shared: Sequence[Reference]) -> Found:
    from tests.faults.harness import training
    from tests.faults.harness.launched import Launched

    whole = given.in_turn(shared)
    did: Counter[str] = Counter()
    for attempt in range(_KILLS):
        with Launched(whole.case, whole.data, given.folder, attempt) as launched:
            steps = given.draw.randint(_FEWEST_STEPS, _MOST_STEPS)
            if not launched.until_step(steps, _START_S):
                return Found([f"start {attempt} came to no step {steps} of its own: {launched.log()}"], did)
            launched.kill_everything()
        if violations := training.torn(given.folder):
            return Found(violations, did)
        did.update(["kills", f"kills of {whole.case.name}"])
    with Launched(whole.case, whole.data, given.folder, _KILLS) as launched:
        code = launched.wait(_START_S)
        if code != 0:
            return Found([f"the resumed training ended with {code}: {launched.log()}"], did)
    violations = training.differences(given.folder, _KILLS + 1, whole)
    return Found([*violations, *training.lost_too_much(given.folder, _KILLS + 1, whole)], did)
