"""SIGTERM at any point of a training, to one rank or to all: every rank saves the same step, and leaves."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

FAULT = "SIGTERM in start, warm-up, step, validation or save, to one or all: one step saved, under 110 s"
TRIALS, QUICK, AT_ONCE = 100, 2, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 400.0

_WINDOW_S = 110.0
_STOPPED = 75
# After the last step the result is written, and SIGTERM is what it is to any program.
_AT_THE_END = {0, _STOPPED, -signal.SIGTERM}
_PHASES = ("load", "warm-up", "step", "validation", "copy", "write", "gather", "manifest", "retention")
_TWICE = 0.3
# Every so many trials go through the launcher and torchrun; none of QUICK: test_training_ends.py does.
_LAUNCHED = 8
_START_S = 120.0


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "12", "log_every": "3", "checkpoint_every": "7steps"}
    cases = [Case(f"{size} ranks", size, 7, common) for size in (2, 1, 3)]
    return training.References(cases, data, folder)


def trial(given: Trial, shared: Sequence[Reference]) -> Found:
    from tests.faults.harness import training

    launched = given.number % _LAUNCHED == _LAUNCHED - 1
    whole = shared[0] if launched else given.draw.choice(shared)
    did: Counter[str] = Counter()
    codes, violations = (_launched if launched else _forked)(given, whole, did)
    if violations:
        return Found(violations, did)
    last = {tuple(step for step, _, _ in training.trace(given.folder, 0, rank))[-1:] for rank in codes}
    if len(last) > 1:
        return Found([f"the ranks left after different steps: {last}"], did)
    [ended] = last
    with training.start(whole.case, whole.data, given.folder, 1) as ranks:
        resumed = ranks.wait(training.PATIENCE_S)
    if resumed != dict.fromkeys(range(whole.case.world_size), 0):
        return Found([f"the resumed training ended with {resumed}: {training.logs(given.folder, 1)}"], did)
    first = [line[0] for line in training.trace(given.folder, 1, 0)][:1]
    done = ended[0] if ended else 0
    if done < whole.steps and first != [done + 1]:
        violations.append(f"stopped after step {done}, gone on with {first}: {training.logs(given.folder, 0)}")
    return Found([*violations, *training.differences(given.folder, 2, whole)], did)


def _forked(given: Trial, whole: Reference, did: Counter[str]) -> tuple[dict[int, int], list[str]]:
    from tests.faults.harness import training
    from tests.faults.harness.instants import draw_instant, wait_for

    size = whole.case.world_size
    instant = draw_instant(given.draw, whole, _PHASES, any_instant=0.0)
    victims = [given.draw.randrange(size)] if given.draw.random() < 0.5 else [*range(size)]
    again = given.draw.uniform(0.0, 0.02) if given.draw.random() < _TWICE else None
    with training.start(whole.case, whole.data, given.folder, 0) as ranks:
        if not wait_for(ranks, instant):
            did.update(["ended before"])
        ranks.send(signal.SIGTERM, victims)
        began = time.monotonic()
        if again is not None and len(ranks.wait(again)) < size:
            ranks.send(signal.SIGTERM)
        ranks.end_the_rest(signal.SIGTERM, given.draw)
        codes = dict(ranks.wait(_WINDOW_S))
        seconds = time.monotonic() - began
    to = "all" if len(victims) == size else "one"
    did.update([f"{instant.name}, to {to}", *(["twice"] if again is not None else [])])
    if len(codes) == size and _took(given.folder) == whole.steps and {*codes.values()} <= _AT_THE_END:
        did.update(["had come to its end"])
        return codes, []
    if len(codes) == size and not _took(given.folder) and 0 not in codes.values():
        did.update(["before the first step"])  # SIGTERM is not yet a request: there is nothing to save
        return codes, []
    if codes != dict.fromkeys(range(size), _STOPPED):
        told = f"SIGTERM {instant.name} to {victims}: after {seconds:.1f} s the ranks ended with {codes}"
        return codes, [f"{told} instead of {_STOPPED}: {training.logs(given.folder, 0)}"]
    return codes, []


def _took(folder: Path) -> int:
    """The step that rank 0 has begun last."""
    from tests.faults.harness import training

    return max((step for step, _, _ in training.trace(folder, 0, 0)), default=0)


def _launched(given: Trial, whole: Reference, did: Counter[str]) -> tuple[dict[int, int], list[str]]:
    from drivetrain.processes.process_table import send
    from tests.faults.harness.launched import Launched

    with Launched(whole.case, whole.data, given.folder, 0) as launched:
        early = given.draw.random() < 0.3
        if early:
            launched.wait(given.draw.uniform(0.5, 8.0))  # imports, rendezvous, the group's start
        elif not launched.until_step(given.draw.randint(1, 30), _START_S):
            return {}, [f"the launched training came to no step: {launched.log()}"]
        one = not early and given.draw.random() < 0.5
        to = given.draw.choice(sorted(launched.ranks().values()) or [launched.process.pid]) if one else 0
        send(to or launched.process.pid, signal.SIGTERM)
        began = time.monotonic()
        code = launched.wait(_WINDOW_S)
        seconds = time.monotonic() - began
    did.update([f"launcher, {'one rank' if one else 'early' if early else 'in a step'}"])
    ranks = range(whole.case.world_size)
    if code == 0 and _took(given.folder) == whole.steps:
        did.update(["had come to its end"])
    elif code != _STOPPED:
        told = f"after {seconds:.1f} s the launcher ended with {code} instead of {_STOPPED}"
        return {}, [f"{told} ({dict(did)}): {launched.log()}"]
    return dict.fromkeys(ranks, code), []
