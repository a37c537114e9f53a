"""A rank that dies in a collective, and one that stands still: the others end in time, and the training goes on."""

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

FAULT = "a rank SIGKILLed or SIGSTOPped in a step: all exit within 5 s (of the time-out), resumes"
TRIALS, QUICK, AT_ONCE = 100, 2, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 300.0

_GONE_WITHIN_S = 5.0
_TIMEOUT_S = 3.0
# Every so many trials go through the launcher and torchrun; none of QUICK: test_training_ends.py does.
_LAUNCHED = 8
_START_S = 120.0
_EARLY, _LATEST_S = 0.4, 4.0


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "8", "checkpoint_every": "4steps", "collective_timeout": str(_TIMEOUT_S)}
    cases = [Case(f"{size} ranks", size, 4, common) for size in (2, 3)]
    return training.References(cases, data, folder)


def trial(given: Trial, shared: Sequence[Reference]) -> Found:
    from tests.faults.harness import training

    launched = given.number % _LAUNCHED == _LAUNCHED - 1
    whole = shared[0] if launched else given.draw.choice(shared)
    stops = given.draw.random() < 0.5
    did = Counter([f"{'SIGSTOP' if stops else 'SIGKILL'}, {'launcher' if launched else whole.case.name}"])
    violations = (_launched if launched else _forked)(given, whole, stops)
    if violations:
        return Found(violations, did)
    with training.start(whole.case, whole.data, given.folder, 1) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    if codes != dict.fromkeys(range(whole.case.world_size), 0):
        return Found([f"the resumed training ended with {codes}: {training.logs(given.folder, 1)}"], did)
    violations = training.differences(given.folder, 2, whole)
    return Found([*violations, *training.lost_too_much(given.folder, 2, whole)], did)


def _forked(given: Trial, whole: Reference, stops: bool) -> list[str]:
    from tests.faults.harness import training
    from tests.faults.harness.instants import draw_instant, wait_for

    # In a step every rank waits for every other one: at some moment of it, in all_reduce.
    instant = draw_instant(given.draw, whole, ["step"], any_instant=0.0)
    victim = given.draw.randrange(whole.case.world_size)
    allowed = _GONE_WITHIN_S + (_TIMEOUT_S if stops else 0.0)
    with training.start(whole.case, whole.data, given.folder, 0) as ranks:
        if not wait_for(ranks, instant):
            return ["the training ended before"]
        ranks.send(signal.SIGSTOP if stops else signal.SIGKILL, [victim])
        others = {*range(whole.case.world_size)} - {victim}
        began = time.monotonic()
        while not others <= ranks.codes.keys() and time.monotonic() - began < allowed:
            ranks.wait_for_any(allowed - (time.monotonic() - began))
        seconds, codes = time.monotonic() - began, dict(ranks.codes)
    left = others - codes.keys()
    if left:
        return [f"{seconds:.1f} s after rank {victim} was lost ranks {left} live: {training.logs(given.folder, 0)}"]
    if {codes[rank] for rank in others} == {0}:
        return []  # the victim was in its last step, and had given its part: without it nobody ends so
    wrong = {rank: codes[rank] for rank in others if codes[rank] != 1}
    return [f"ranks ended with {wrong} instead of 1: {training.logs(given.folder, 0)}"] if wrong else []


def _launched(given: Trial, whole: Reference, stops: bool) -> list[str]:
    from drivetrain.processes.process_table import descendants, send
    from tests.faults.harness.killing import alive
    from tests.faults.harness.launched import Launched

    allowed = _GONE_WITHIN_S + (_TIMEOUT_S if stops else 0.0)
    with Launched(whole.case, whole.data, given.folder, 0) as launched:
        # Before the first step, too, when groups are made, and only torchrun can know.
        early = not stops and given.draw.random() < _EARLY
        if not (launched.until_ranks(_START_S) if early else launched.until_step(given.draw.randint(2, 12), _START_S)):
            return [f"the launched training came to no step: {launched.log()}"]
        if early:
            launched.wait(given.draw.uniform(0.0, _LATEST_S))
        if not (there := sorted(launched.ranks().items())):
            return []  # it was quicker
        victim = given.draw.choice(there)
        below = descendants(launched.process.pid)
        send(victim[1], signal.SIGSTOP if stops else signal.SIGKILL)
        began = time.monotonic()
        code = launched.wait(allowed)
        seconds = time.monotonic() - began
        if code is None:
            return [f"the launcher lives {seconds:.1f} s after rank {victim[0]} was lost: {launched.log()}"]
        left = [pid for pid in below if alive(pid)]
        if left:
            return [f"{len(left)} processes live after the launcher ended"]
        return [] if code == 75 else [f"the launcher ended with {code} instead of 75: {launched.log()}"]
