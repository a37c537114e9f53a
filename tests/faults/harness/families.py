"""The fault families: every file of tests/faults that is no test and no part of the harness.

A family's file has

    FAULT = "..."            what is broken, and what must hold
    TRIALS, QUICK = 200, 10  of the whole campaign; of the few that CI runs
    def trial(given: Trial, shared: Any) -> Found
    def prepare(folder: Path) -> Any    optional: what all trials hold themselves against (an uninterrupted run), made
                                        once a process and given to each trial as `shared`
    AT_ONCE = 2              optional: how many processes work through its trials
    PRELOAD = ("module",)    optional: imported once for all, in the process from which the trials' are forked
    MISSING = "..."          optional: what this machine lacks for its trials, and how to get it; then none is made
    PATIENCE_S = 120.0       optional: a trial (or `prepare`) that takes longer hangs, which is a violation

Whatever a trial draws it draws from `given.draw`, which depends on the family, the seed and the trial's number alone: a
violation is looked at again by these three.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Trial:
    """One of a campaign. `folder` is its own and empty; it is kept where something was violated."""

    number: int
    seed: int
    folder: Path
    draw: random.Random

    def in_turn(self, kinds: Sequence[_Kind]) -> _Kind:
        """Trials one after the other are of each kind once; the seed says which kind is first, so that campaigns of
        fewer trials than kinds come to each of them, too."""
        return kinds[(self.seed + self.number) % len(kinds)]


# Begins the name of what is not added up over trials: the highest is told.
SLOWEST = "slowest"


@dataclass(frozen=True)
class Found:
    """What came of a trial: what was violated, and what was done, counted (`{"killed in a write": 1}`)."""

    violations: list[str] = field(default_factory=list)
    did: dict[str, int] = field(default_factory=dict)


def of_all(folder: Path) -> Path:
    """The folder of all processes of a campaign, of the one that `prepare` is given."""
    return folder.parents[1] / "of-all"


@dataclass(frozen=True)
class Family:
    """See above."""

    name: str
    fault: str
    trials: int
    quick: int
    at_once: int
    preload: tuple[str, ...]
    patience_s: float
    prepare: Callable[[Path], Any]
    trial: Callable[[Trial, Any], Found]
    missing: str = ""

    def draw(self, seed: int, number: int) -> random.Random:
        return random.Random(f"{self.name}/{seed}/{number}")


def family_names() -> list[str]:
    folder = Path(__file__).parents[1]
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith(("_", "test_")))


def family(name: str) -> Family:
    module = importlib.import_module(f"tests.faults.{name}")
    return Family(
        name=name,
        fault=module.FAULT,
        trials=module.TRIALS,
        quick=module.QUICK,
        at_once=_optional(module, "AT_ONCE", 1),
        preload=_optional(module, "PRELOAD", ()),
        patience_s=_optional(module, "PATIENCE_S", 120.0),
        prepare=_optional(module, "prepare", _nothing),
        trial=module.trial,
        missing=_optional(module, "MISSING", ""),
    )


def _optional(module: ModuleType, name: str, default: Any) -> Any:
    return getattr(module, name, default)


def _nothing(folder: Path) -> None:
    """What the trials of a family share that has no `prepare`."""
