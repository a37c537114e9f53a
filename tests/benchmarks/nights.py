"""Nights: how often a line that is no better is promoted in a year, and how soon one that is better is found.

Rows are won or lost. **Reused**: the same rows all year; a share `f` of them is flipped at random by each training.
**Fresh**: other rows each night. In a year four lines run for 91 nights each. Candidates of a line may differ truly, by
half a point up or down, and be no better on average.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.decision.nights import SPENT, Pooled, by_nights, by_rows, looks_until
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record

LINES, NIGHTS, SOON, DRAWS = 4, 91, 14, 50_000
LEVEL = 0.05 / LINES
EQUAL, BETTER = (0.02, 0.02), (0.05, 0.03)
YEARS, FOUND = 100, 400
MOST_WRONG = 0.07
"""Of 400 years 28: 5 % and what chance adds."""
LEAST = {("fresh", 357): 0.9, ("fresh", 2000): 0.99, ("f=2 %", 2000): 0.9, ("f=0", 2000): 0.8}


def records(bench: Bench) -> Iterator[Record]:
    years, lines = (1, 2) if bench.quick else (YEARS, FOUND)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for size in (357, 2000):
            for name, run in _worlds(size, EQUAL, NIGHTS).items():
                bench.progress(f"nights: {years} years of {LINES} lines that are no better, {name}, n={size}")
                wrong = sum(pool.map(partial(_any, run, LINES, size), range(years), chunksize=5)) / years
                yield Record(
                    name=f"nights: a line that is no better promoted in a year, {name}, n={size}",
                    unit="share",
                    ours=wrong,
                    target=None if bench.quick else MOST_WRONG,
                    note=f"{years} years of {LINES} lines of {NIGHTS} nights; rows won and lost: 2 % and 2 %",
                )
            for name, run in _worlds(size, BETTER, SOON).items():
                if "differ" not in name:
                    yield Record(
                        name=f"nights: two points more found within {SOON} nights, {name}, n={size}",
                        unit="share",
                        ours=sum(pool.map(partial(_any, run, 1, size), range(lines), chunksize=5)) / lines,
                        target=None if bench.quick else LEAST.get((name, size)),
                        better="higher",
                        note=f"{lines} lines, {LINES} a year; rows won and lost: 5 % and 3 %",
                    )


def _any(run: Callable[[np.random.Generator], bool], lines: int, size: int, seed: int) -> bool:
    """True where one of so many lines is promoted."""
    random = np.random.default_rng([lines, size, seed])
    return any(run(random) for _ in range(lines))


def _worlds(size: int, rates: tuple[float, float], nights: int) -> dict[str, Any]:
    return {
        "f=0": partial(reused, size, rates, 0.0, 0.0, nights),
        "f=2 %": partial(reused, size, rates, 0.02, 0.0, nights),
        "f=2 %, candidates differ": partial(reused, size, rates, 0.02, 0.005, nights),
        "fresh": partial(fresh, size, rates, 0.0, nights),
        "fresh, candidates differ": partial(fresh, size, rates, 0.005, nights),
    }


def reused(
    size: int, rates: tuple[float, float], flipped: float, apart: float, nights: int, random: np.random.Generator
) -> bool:
    """Whether a line is promoted whose nights have the same rows."""
    drawn, (won, lost) = random.random(size), rates
    base = np.where(drawn < won - flipped / 2, 1.0, np.where(drawn < won + lost - flipped, -1.0, 0.0))
    ties = np.flatnonzero(base == 0)
    total, gains = np.zeros(size), list[float]()
    parts: list[NDArray[np.float64]] = []
    for night in range(1, nights + 1):
        tonight = base.copy()
        if flipped:
            up = (flipped + apart * random.choice([-1, 1])) / 2
            drawn = random.random(len(ties))
            tonight[ties] = (drawn < up) * 1.0 - ((drawn >= up) & (drawn < flipped))
        total += tonight
        gains.append(float(tonight.mean()))
        if night in SPENT:
            parts.append(total / night / size)
            if _promoted(parts[-1], gains, lambda: by_rows(np.stack(parts), gains, LEVEL, DRAWS)):
                return True
    return False


def fresh(size: int, rates: tuple[float, float], apart: float, nights: int, random: np.random.Generator) -> bool:
    """Whether a line is promoted whose nights have rows of their own."""
    shift = apart * random.choice([-1, 1], nights) / 2
    won, lost = random.binomial(size, rates[0] + shift), random.binomial(size, rates[1] - shift)
    gains: list[float] = ((won - lost) / size).tolist()
    first = np.repeat([1.0, -1.0], [won[0], lost[0]]) / size
    if _promoted(first, gains[:1], lambda: by_rows(first[None], gains[:1], LEVEL, DRAWS)):
        return True
    for look in looks_until(nights)[1:]:
        until = gains[:look]
        if _promoted(np.asarray(until), until, partial(by_nights, until, LEVEL, DRAWS)):
            return True
    return False


def _promoted(units: NDArray[np.float64], gains: list[float], verdict: Any) -> bool:
    """What is less than 1.8 deviations is no verdict of any look, and not worth drawing chance for."""
    if units.sum() <= 1.8 * np.sqrt((units**2).sum()):
        return False
    found: Pooled = verdict()
    return found.is_better and gains[-1] >= 0
