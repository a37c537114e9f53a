"""A training is killed, and started again with another field, another file of its recipe, or other epochs."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.steps.trainings import EXECUTION
from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.ranks import Event
    from tests.faults.harness.training import Reference

FAULT = "started again with another field or code: anew, the other named, nothing lost; a resumed run trains longer"
TRIALS, QUICK, AT_ONCE = 100, 1, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 400.0

_EVERY = 3
_LONGER = 11
# Another value of each field that makes a training what it is.
_CHANGES = {
    "learning_rate": "0.01",
    "weight_decay": "0.2",
    "global_batch": "16",
    "accumulation": "2",
    "seed": "5",
    "clip_norm": "0.5",
    "ema_decay": "0.5",
    "schedule": "linear",
    "warmup_epochs": "2.0",
    "drop_last": "True",
    "sampling": "balanced",
    "precision": "bf16",
    "recipe_options": '{"hidden": 24}',
}
_CODE = "recipe code"
_RECIPE = "recipe_of_ones_own"
_WAYS = ("another", "another", "another", "longer", "longer in its run", "shorter")


@dataclass(frozen=True)
class Shared:
    data: Path
    wholes: Sequence[Reference]
    """As it is, and longer."""


def prepare(folder: Path) -> Shared:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    options = {"global_batch": "8", "epochs": "6", "ema_decay": "0.9", "checkpoint_every": f"{_EVERY}steps"}
    options |= {"schedule": "constant", "recipe": _RECIPE}
    case = Case("2 ranks", 2, _EVERY, options)
    longer = replace(case, options={**options, "epochs": str(_LONGER)})
    found = _recipe_in(folder, edited=False)
    return Shared(data, training.References([case, longer], data, folder, change=found))


def trial(given: Trial, shared: Shared) -> Found:
    from tests.faults.harness import training

    draw, whole = given.draw, shared.wholes[0]
    case, place = whole.case, given.folder / "training"
    same, edited = _recipe_in(given.folder, edited=False), _recipe_in(given.folder, edited=True)
    # The save that is begun then waits for the one before it: more than an epoch is kept, and one epoch is too few.
    steps = draw.randint(3 * _EVERY + 1, whole.steps - _EVERY)

    def reached(event: Event) -> bool:
        nonlocal steps
        steps -= event.rank == 0 and event.begins and event.phase == "step"
        return steps < 0

    with training.start(case, shared.data, place, 0, change=_in_run(same, "the first")) as ranks:
        if not ranks.until(reached, training.PATIENCE_S):
            return Found([f"the first start ended early: {training.logs(place, 0)}"])
        ranks.send(signal.SIGKILL)
        ranks.wait(training.PATIENCE_S)
    way = draw.choice(_WAYS)
    field = draw.choice([*_CHANGES, _CODE]) if way == "another" else "epochs"
    value = "1" if way == "shorter" else _CHANGES.get(field, str(_LONGER))
    changed = replace(case, options={**case.options} if field == _CODE else {**case.options, field: value})
    run = "the first" if way == "longer in its run" else "another"
    with training.start(
        changed, shared.data, place, 1, change=_in_run(edited if field == _CODE else same, run)
    ) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    log, first = training.logs(place, 1, last=100_000), _first_step(place, 1)
    did, told = Counter([way]), f"{way}, {field}"
    if way == "longer in its run":
        violations = training.differences(place, 2, shared.wholes[1])
        return Found([f"{told}: {text}" for text in violations], did)
    violations: list[str] = []
    if codes != {0: 0, 1: 0} or first != 1:
        violations.append(f"{told}: it began with step {first} and ended with {codes}: {log}")
    named = _RECIPE if field == _CODE else field
    if "differs in: " not in log or named not in log.partition("differs in: ")[2].partition("\n")[0]:
        violations.append(f"{told}: {named} is not named: {log}")
    # The first one lies where it was, and comes to the same end.
    with training.start(case, shared.data, place, 2, change=_in_run(same, "the first")) as ranks:
        ranks.wait(training.PATIENCE_S)
    if not (_first_step(place, 2) or 0) > 1:
        violations.append(f"{told}: the first one began anew: {training.logs(place, 2)}")
    return Found(violations, did)


def _in_run(change: Callable[[int], None], run: str) -> Callable[[int], None]:
    def told(rank: int) -> None:
        os.environ[EXECUTION] = run
        change(rank)

    return told


def _first_step(place: Path, attempt: int) -> int | None:
    from tests.faults.harness import training

    lines = training.trace(place, attempt, 0)
    return lines[0][0] if lines else None


def _recipe_in(folder: Path, *, edited: bool) -> Callable[[int], None]:
    """A recipe of the user's own in a folder; called in a rank, it makes it one that can be imported."""
    place = folder / ("edited" if edited else "code")
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{_RECIPE}.py").write_text(
        "from dataclasses import dataclass\n"
        "from tests.faults.harness import tiny_recipe\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Recipe(tiny_recipe.Recipe):\n"
        "    hidden: int = 64\n" + ("# edited\n" if edited else "")
    )

    def importable(rank: int) -> None:
        sys.path.insert(0, str(place))

    return importable
