"""Decisions: how often compare promotes a model that is no better, or keeps one that is, by simulated test sets.

A candidate is compared on paired rows: on some of them it alone is right, on some the champion alone, and `decide`
decides with its defaults. One test
set is used for 365 candidates, one a night, as long as none is promoted. Limits beside it are the sign test without any
correction, and with Bonferroni's over 365.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np

from drivetrain.decision.deciding import Champion, decide
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.policy import Policy
from drivetrain.decision.rows import Rows as Evidence
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record

HORIZON, ERROR = 365, 0.05
SIZES = (357, 2000)
EQUAL, BETTER, NOISY = (0.02, 0.02), (0.03, 0.01), (0.05, 0.03)
SERIES, PAIRS, SLICED = 400, 2000, 1000
MOST_WRONG, LEAST_POWER = 0.05, 0.75


def records(bench: Bench) -> Iterator[Record]:
    series, pairs, sliced = (1, 4, 2) if bench.quick else (SERIES, PAIRS, SLICED)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for size in SIZES:
            bench.progress(f"decisions: {series} test sets of {size} rows, {HORIZON} equal candidates each")
            found = list(pool.map(partial(promoted, size), range(series)))
            wrong, bare = (sum(one[place] for one in found) / series for place in (0, 1))
            yield Record(
                name=f"decisions: an equal model promoted within {HORIZON} nights, n={size}",
                unit="share",
                ours=wrong,
                target=MOST_WRONG,
                peers={"uncorrected": bare},
                note=f"{series} test sets; rows won and lost: {EQUAL[0]:.0%} and {EQUAL[1]:.0%}",
            )
        for size in SIZES:
            for rates in (BETTER, NOISY):
                bench.progress(f"decisions: {pairs} models that are better, n={size}")
                found = list(pool.map(partial(kept, size, rates), range(pairs)))
                ours, bare, bonferroni = (sum(one[place] for one in found) / pairs for place in range(3))
                asked = size == 2000 and rates == BETTER and not bench.quick
                yield Record(
                    name=f"decisions: a better model promoted, n={size}, won {rates[0]:.0%}, lost {rates[1]:.0%}",
                    unit="share",
                    ours=ours,
                    target=LEAST_POWER if asked else None,
                    peers={"uncorrected": bare, "Bonferroni": bonferroni},
                    better="higher",
                    note=f"one comparison of {HORIZON}; {pairs} pairs",
                )
        bench.progress(f"decisions: {sliced} pairs of equal models in ten slices")
        found = list(pool.map(sliced_pair, range(sliced)))
        broken, bare = (sum(one[place] for one in found) / sliced for place in (0, 1))
        yield Record(
            name="decisions: a budget of 2 points on 10 slices of 50 rows broken by an equal model",
            unit="share",
            ours=broken,
            target=MOST_WRONG,
            peers={"bare values": bare},
            note=f"{sliced} pairs; rows won and lost: 5 % and 5 %",
        )


class Rows:
    """A test set."""

    def __init__(self, size: int, random: np.random.Generator) -> None:
        self.size, self._random = size, random

    def pair(self, won: float, lost: float) -> tuple[np.ndarray, np.ndarray]:
        """Which rows the candidate and the champion have right."""
        drawn = self._random.random(self.size)
        both = self._random.random(self.size) < 0.9
        wins, losses = drawn < won, (drawn >= won) & (drawn < won + lost)
        return (both & ~losses) | wins, (both & ~wins) | losses


def group(right: np.ndarray) -> Group:
    metrics = {"accuracy": Measured(value=float(right.mean()), higher_is_better=True)}
    return Group(num_samples=len(right), metrics=metrics)


def evaluation(right: np.ndarray, slices: dict[str, np.ndarray] | None = None) -> Evaluation:
    parts = slices or {}
    return Evaluation(
        source="",
        groups={"": group(right), **{name: group(right[part]) for name, part in parts.items()}},
        data_hash="",
        rows=len(right),
        key=None,
        model_hash="",
        settings={},
        resampling=None,
        evidence=Evidence.of({"accuracy": (right, None)}, slices=parts),
    )


def signs(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The exact sign test of what was drawn: how often chance gives at least so many wins."""
    wins, losses = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    both = wins + losses
    return sum(math.comb(both, most) for most in range(wins, both + 1)) / 2**both


def better(ours: np.ndarray, theirs: np.ndarray) -> bool:
    champion = Champion(version=1, content_hash="", evaluation=evaluation(theirs))
    return decide(evaluation(ours), champion, Policy()).better


def promoted(size: int, seed: int) -> tuple[bool, bool]:
    """Whether any of the nightly candidates that are equal is promoted: by compare, and without a correction."""
    rows = Rows(size, np.random.default_rng([1, size, seed]))
    corrected = bare = False
    for _ in range(HORIZON):
        models = rows.pair(*EQUAL)
        p = signs(*models)
        # What is hardly better without a correction is not asked about.
        corrected = corrected or (p <= 2 * ERROR and better(*models))
        bare = bare or p <= ERROR / 2
    return corrected, bare


def kept(size: int, rates: tuple[float, float], seed: int) -> tuple[bool, bool, bool]:
    rows = Rows(size, np.random.default_rng([2, size, seed]))
    models = rows.pair(*rates)
    p = signs(*models)
    return better(*models), p <= ERROR / 2, p <= ERROR / HORIZON


def sliced_pair(seed: int) -> tuple[bool, bool]:
    """Whether any of ten slices breaks its budget: as compare says, and by the bare values."""
    pair = Rows(500, np.random.default_rng([3, seed])).pair(0.05, 0.05)
    slices = {f"site={n}": np.arange(500) // 50 == n for n in range(10)}
    models = [evaluation(right, slices) for right in pair]
    champion = Champion(version=1, content_hash="", evaluation=models[1])
    found = decide(models[0], champion, Policy(budgets='{"accuracy@site=*": 0.02}'))
    return not found.within_budgets, any(loss.loss > 0.02 for loss in found.regressions)
