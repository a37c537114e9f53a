"""One training preempted 50 times, by SIGTERM and by SIGKILL, and one that never was: bit-equal."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.ranks import Event
    from tests.faults.harness.training import Reference

FAULT = "preempted 50 times one after the other (ddp, fsdp; 2, 3, 4 ranks): weights, metrics, samples equal"
TRIALS, QUICK, AT_ONCE = 40, 1, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 600.0

# One of so many trials, that of QUICK, is short.
_SHORT_EACH = 8
_PREEMPTIONS, _EPOCHS = {"long": 50, "short": 8}, {"long": "120", "short": "24"}
_CASES = (("ddp", 3), ("fsdp", 2), ("ddp", 2), ("ddp", 4))
_WINDOW_S = 110.0
_STOPPED = 75
_EVERY = 3


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data", 44)  # in batches of 16, which 3 ranks cannot share equally
    common = {"global_batch": "16", "validate_every": "9", "log_every": "3", "ema_decay": "0.9"}
    common |= {"checkpoint_every": f"{_EVERY}steps"}
    cases = [
        Case(f"{length} {strategy} {size}", size, _EVERY, {**common, "epochs": epochs, "strategy": strategy})
        for length, epochs in _EPOCHS.items()
        for strategy, size in _CASES
    ]
    return training.References(cases, data, folder)


def trial(given: Trial, shared: Sequence[Reference]) -> Found:
    from tests.faults.harness import training

    length = "long" if given.number % _SHORT_EACH else "short"
    whole = shared[list(_EPOCHS).index(length) * len(_CASES) + given.in_turn(range(len(_CASES)))]
    size = whole.case.world_size
    did = Counter([whole.case.name])
    attempt = 0
    while did["preemptions"] < _PREEMPTIONS[length]:
        killed = given.draw.random() < 0.5
        # SIGTERM saves the step at which it is heard. After a SIGKILL a save must have been reached to get on, but a
        # chain that falls back now and then is all the better.
        steps = given.draw.randint(_EVERY + 1, 2 * _EVERY + 2) if killed else given.draw.randint(0, 3)

        def reached(event: Event) -> bool:
            nonlocal steps
            steps -= event.rank == 0 and event.begins and event.phase == "step"
            return steps < 0

        with training.start(whole.case, whole.data, given.folder, attempt) as ranks:
            if not ranks.until(reached, training.PATIENCE_S):
                return Found([f"start {attempt} ended early with {ranks.codes}: {_logs(given, attempt)}"], did)
            ranks.send(signal.SIGKILL if killed else signal.SIGTERM)
            codes = dict(ranks.wait(_WINDOW_S))
        if not killed and codes != dict.fromkeys(range(size), _STOPPED):
            return Found([f"start {attempt} ended with {codes} instead of {_STOPPED}: {_logs(given, attempt)}"], did)
        did.update(["preemptions", "SIGKILL" if killed else "SIGTERM"])
        attempt += 1
    with training.start(whole.case, whole.data, given.folder, attempt) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    if codes != dict.fromkeys(range(size), 0):
        return Found([f"the last start ended with {codes}: {_logs(given, attempt)}"], did)
    return Found(training.differences(given.folder, attempt + 1, whole), did)


def _logs(given: Trial, attempt: int) -> str:
    from tests.faults.harness import training

    return training.logs(given.folder, attempt)
