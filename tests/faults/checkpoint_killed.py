"""SIGKILL a training at a random instant of its life, most often inside a save, and let it go on."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

FAULT = "training killed at any instant, mostly in a save: whole, unmixed, one save lost, bit-equal"
TRIALS, QUICK, AT_ONCE = 3000, 3, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 600.0

_KILL_AGAIN = 0.25
_ANY_INSTANT = 0.25
_ONE_RANK_ALONE = 0.3
_GONE_WITHIN_S = 5.0


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "6", "log_every": "3", "ema_decay": "0.9", "checkpoint_every": "4steps"}
    cases = [
        Case(f"{size} ranks, {way}", size, 4, {**common, "async_checkpoints": str(way == "async")})
        for size in (1, 2)
        for way in ("async", "sync")
    ]
    return training.References(cases, data, folder)


def trial(given: Trial, shared: Sequence[Reference]) -> Found:
    from tests.faults.harness import training

    whole = given.in_turn(shared)
    did: Counter[str] = Counter()
    violations: list[str] = []
    folder, attempt, tries = given.folder / "0", 0, 0
    while True:
        killed, said = _kill(given, whole, folder, attempt)
        violations += said
        attempt += 1
        if killed:
            did.update([f"killed {killed}", "kills", f"kills of {whole.case.name}"])
        elif not did["kills"]:  # it ended before: another one, for nothing is left to interrupt in this
            tries += 1
            folder, attempt = given.folder / str(tries), 0
            continue
        if not killed or given.draw.random() > _KILL_AGAIN:
            break
    with training.start(whole.case, whole.data, folder, attempt) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    if codes != dict.fromkeys(range(whole.case.world_size), 0):
        said = f"the resumed training ended with {codes}: {training.logs(folder, attempt)}"
        return Found([*violations, said], did)
    violations += training.differences(folder, attempt + 1, whole)
    violations += training.lost_too_much(folder, attempt + 1, whole)
    return Found(violations, did)


def _kill(given: Trial, whole: Reference, folder: Path, attempt: int) -> tuple[str, list[str]]:
    """Start, and kill at an instant that is drawn.

    Returns: the instant's name, "" where the training ended before, and violations.
    """
    from tests.faults.harness import training
    from tests.faults.harness.instants import draw_instant, wait_for

    size = whole.case.world_size
    instant = draw_instant(given.draw, whole, any_instant=_ANY_INSTANT)
    victims = [given.draw.randrange(size)] if given.draw.random() < _ONE_RANK_ALONE else [*range(size)]
    with training.start(whole.case, whole.data, folder, attempt) as ranks:
        if not wait_for(ranks, instant):
            return "", []
        ranks.send(signal.SIGKILL, victims)
        ranks.end_the_rest(signal.SIGKILL, given.draw)
        codes = ranks.wait(_GONE_WITHIN_S)
        left = sorted({*range(size)} - codes.keys())
        said = [f"{_GONE_WITHIN_S} s after ranks {victims} were killed {instant.name}, {left} live"] if left else []
    said += training.torn(folder)
    return "" if set(codes.values()) == {0} else instant.name, said
