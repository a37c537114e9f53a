"""The fault families: every file of tests/faults that is no test and no part of the harness."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Family:
    """`run(trials, seed)` gives the number of trials made, and what went wrong, a line a violation."""

    name: str
    fault: str
    trials: int
    quick: int
    run: Callable[[int, int], tuple[int, list[str]]]


def families() -> dict[str, Family]:
    """By name: a file with FAULT (what is broken, and what must hold), TRIALS, QUICK and run."""
    found: dict[str, Family] = {}
    for path in sorted(Path(__file__).parents[1].glob("*.py")):
        if path.stem.startswith(("_", "test_")):
            continue
        module = importlib.import_module(f"tests.faults.{path.stem}")
        found[path.stem] = Family(path.stem, module.FAULT, module.TRIALS, module.QUICK, module.run)
    return found
