"""A training that goes on with another number of ranks each time: 1, 2, 4, in any order."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.ranks import Event
    from tests.faults.harness.training import Case, Reference

FAULT = "resumed on other numbers of ranks (1, 2, 4; ddp, fsdp): samples once an epoch, float64 in 1e-10"
TRIALS, QUICK, AT_ONCE = 100, 2, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 400.0

_SIZES = (1, 2, 4)
_EVERY = 3
_CLOSE = 1e-10
_STARTS = 4
_ROWS = 30


@dataclass(frozen=True)
class Shared:
    """What one process alone makes of it."""

    data: Path
    wholes: Sequence[Reference]
    cases: dict[str, Case]


def prepare(folder: Path) -> Shared:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data", _ROWS)
    options = {"global_batch": "8", "epochs": "12", "precision": "fp64", "checkpoint_every": f"{_EVERY}steps"}
    options |= {"ema_decay": "0.9", "recipe_options": '{"random": false}'}
    cases = {name: Case(name, 1, _EVERY, {**options, "strategy": name}) for name in ("ddp", "fsdp")}
    return Shared(data, training.References([cases["ddp"]], data, folder), cases)


def trial(given: Trial, shared: Shared) -> Found:
    from tests.faults.harness import training

    whole, draw = shared.wholes[0], given.draw
    case = shared.cases[draw.choice(sorted(shared.cases))]
    sizes = [draw.choice(_SIZES)]
    while len(sizes) < _STARTS:
        sizes.append(draw.choice([size for size in _SIZES if size != sizes[-1]]))
    path = " -> ".join(str(size) for size in sizes)
    did: Counter[str] = Counter()
    for attempt, size in enumerate(sizes):
        did.update([f"{case.name} {size} ranks"])
        # Far enough that a second save has begun, before which the first is durable.
        steps = draw.randint(2 * _EVERY + 1, 3 * _EVERY)

        def reached(event: Event) -> bool:
            nonlocal steps
            steps -= event.rank == 0 and event.begins and event.phase == "step"
            return steps < 0

        last = attempt == len(sizes) - 1
        with training.start(case, shared.data, given.folder, attempt, world_size=size) as ranks:
            if last:
                codes = ranks.wait(training.PATIENCE_S)
                if codes != dict.fromkeys(range(size), 0):
                    told = f"{case.name}, {path}: the last start ended with {codes}"
                    return Found([f"{told}: {training.logs(given.folder, attempt)}"], did)
            elif not ranks.until(reached, training.PATIENCE_S):
                told = f"{case.name}, {path}: start {attempt} ended early"
                return Found([f"{told}: {training.logs(given.folder, attempt)}"], did)
            else:
                ranks.send(signal.SIGKILL)
    violations = _samples(given.folder, sizes, whole)
    violations += _resumed(given.folder, sizes)
    distance = _distance(given.folder, whole)
    if not distance <= _CLOSE:
        violations.append(f"the weights differ by {distance:.3g}")
    return Found([f"{case.name}, {path}: {text}" for text in violations], did)


def _samples(folder: Path, sizes: list[int], whole: Reference) -> list[str]:
    """The parts of the ranks, in their order, are the batch that one process has at that step."""
    from tests.faults.harness import training

    violations: list[str] = []
    taken: dict[int, list[int]] = {}
    for attempt, size in enumerate(sizes):
        parts = [{step: keys for step, keys, _ in training.trace(folder, attempt, rank)} for rank in range(size)]
        for step in sorted(set.intersection(*(set(part) for part in parts))):
            taken[step] = [key for part in parts for key in part[step]]
            right = whole.traces[0][step][1]
            if taken[step] != right:
                violations.append(f"start {attempt} step {step} had samples {taken[step]} instead of {right}")
                break
    if sorted(taken) != [*range(1, whole.steps + 1)]:
        violations.append("not every step was taken")
    steps_an_epoch = -(-_ROWS // 8)
    for first in range(1, whole.steps + 1, steps_an_epoch):
        keys = sorted(key for step in range(first, first + steps_an_epoch) for key in taken.get(step, []))
        if keys != [*range(_ROWS)]:
            violations.append(f"the epoch from step {first} had samples {keys}")
    return violations


def _resumed(folder: Path, sizes: list[int]) -> list[str]:
    """Each start goes on from a checkpoint, and not from the beginning."""
    from tests.faults.harness import training

    firsts = [training.trace(folder, attempt, 0)[0][0] for attempt in range(len(sizes))]
    return [f"start {attempt} began with step 1" for attempt, first in enumerate(firsts) if attempt and first == 1]


def _distance(folder: Path, whole: Reference) -> float:
    import numpy as np
    from safetensors.numpy import load

    found = load((folder / "model" / "model.safetensors").read_bytes())
    right = load(whole.results["model.safetensors"])
    if found.keys() != right.keys():
        return float("inf")
    return max(float(np.abs(found[name] - right[name]).max()) for name in right)
