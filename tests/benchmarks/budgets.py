"""Budgets that must be proven, and the margin of not_worse: how often a model that is worse is promoted, by simulation.

A slice's counts of rows won and lost are enumerated exactly, as far as they have a weight. A year of not_worse has 365
candidates on one test set, or on new rows each night, decided at the level of one of 365 comparisons.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context

import numpy as np

from drivetrain.decision.limits import rejected
from drivetrain.decision.noninferiority import rules_out
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record

LEVEL, HORIZON, MARGIN, ACCURACY = 0.05, 365, 0.02, 0.946
SIZES, LOSSES, WON = (50, 100, 357, 857, 2000), (0.01, 0.02, 0.05, 0.1, 0.2), (0.0, 0.005, 0.02, 0.05)
YEARS, SETS, ROWS = 400, 2000, 2000
MOST_WRONG, DRIFT = 0.05, 0.148
WORLDS = {
    "drifting": "a pipeline that gets worse all year",
    "worse": "candidates worse by the margin",
    "continued": "each continued from the champion",
}


def records(bench: Bench) -> Iterator[Record]:
    sizes, years, sets = (SIZES[:1], 2, 20) if bench.quick else (SIZES, YEARS, SETS)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from _budgets(bench, pool, sizes, sets)
        yield from _not_worse(bench, pool, years)


def _budgets(bench: Bench, pool: ProcessPoolExecutor, sizes: Sequence[int], sets: int) -> Iterator[Record]:
    bench.progress("budgets: a slice that is worse by its budget, by enumeration")
    rates = [(loss, won) for loss in LOSSES for won in WON]
    for size in sizes:
        cells = dict(zip(rates, pool.map(partial(kept, size), *zip(*rates, strict=True)), strict=True))
        worst = max(cells, key=lambda cell: cells[cell])
        yield Record(
            name=f"budgets: a slice worse by its budget is proven, n={size}",
            unit="share",
            ours=cells[worst],
            target=MOST_WRONG,
            note=f"the highest of {len(cells)} cells: {worst[0]:.0%} worse, {worst[1]:.1%} of rows won",
        )
    bench.progress("budgets: 20 slices of 50 rows, one of them 20 points worse")
    budgets = (0.02, 0.1)
    for budget, (proven, today) in zip(budgets, pool.map(partial(slices, sets), budgets), strict=True):
        yield Record(
            name=f"budgets: all of 20 slices of 50 rows keep {budget:.0%}, one is 20 points worse",
            unit="share",
            ours=proven,
            target=MOST_WRONG,
            peers={"significant": today},
            note=f"{sets} test sets; rows won and lost: 2 % and 2 %",
        )


def _not_worse(bench: Bench, pool: ProcessPoolExecutor, years: int) -> Iterator[Record]:
    bench.progress(f"budgets: {years} years of not_worse")
    of_worlds = [(world, reused) for world in WORLDS for reused in ((True,) if world == "continued" else (False, True))]
    started = {
        (*each, anchored): pool.submit(years_of, years, *each, anchored)
        for each in of_worlds
        for anchored in (True, False)
    }
    limited = {most: pool.submit(years_of, years, "continued", True, True, most) for most in (4, 9)}
    for world, reused in of_worlds:
        where = "reused rows" if reused else "fresh rows"
        best, promoted, below = started[world, reused, True].result()
        champion, more, far = started[world, reused, False].result()
        yield Record(
            name=f"not_worse: a year ends below the best version - margin, {where}, {WORLDS[world]}",
            unit="share",
            ours=best,
            target=None if world == "continued" else MOST_WRONG,
            peers={"margin_from=champion": champion},
            note=f"{years} years of {HORIZON} nights, {ROWS:,} rows, margin {MARGIN}; {promoted:.1f} and "
            f"{more:.1f} promotions a year, the last champion {below:.3f} and {far:.3f} below the best",
        )
    for most, made in limited.items():
        best, _, below = made.result()
        yield Record(
            name=f"not_worse: the same, {most} promotions on the same rows, {WORLDS['continued']}",
            unit="share",
            ours=best,
            target=MOST_WRONG if most == 4 else None,
            note=f"{years} years; the last champion {below:.3f} below the best",
        )


@cache
def ruled(won: int, lost: int, of: int, loss: float, level: float) -> bool:
    return rules_out(won, lost, of, loss, level)


def kept(of: int, loss: float, won: float) -> float:
    """How often a loss as large as the budget is ruled out."""
    lost = won + loss
    wins, losses = np.meshgrid(*(np.arange(min(of, int(of * p + 6 * math.sqrt(of * p) + 8)) + 1) for p in (won, lost)))
    inside = wins + losses <= of
    wins, losses = wins[inside], losses[inside]
    rest = of - wins - losses
    logs = _factorials(of)
    weights = logs[of] - logs[wins] - logs[losses] - logs[rest]
    weights += losses * np.log(lost) + rest * np.log1p(-won - lost)
    weights += wins * np.log(won) if won else np.where(wins, -np.inf, 0.0)
    proven = [rules_out(int(w), int(n), of, loss, LEVEL) for w, n in zip(wins, losses, strict=True)]
    return float(np.exp(weights)[proven].sum())


@cache
def _factorials(most: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def slices(sets: int, budget: float) -> tuple[float, float]:
    """How often all of twenty slices keep their budget: proven, and not significantly exceeded."""
    random = np.random.default_rng(5)
    proven = today = 0
    for _ in range(sets):
        lost = random.binomial(50, [0.22, *[0.02] * 19])
        won = random.binomial(50 - lost, 0.02 / (1 - 0.02))
        counts = [(int(w), int(n)) for w, n in zip(won, lost, strict=True)]
        proven += all(ruled(*each, 50, budget, LEVEL) for each in counts)
        today += not any(rejected([chance(*each, 50, budget) for each in counts], LEVEL))
    return proven / sets, today / sets


@cache
def chance(won: int, lost: int, of: int, budget: float) -> float:
    """As a budget that is exceeded by a significant loss is judged: of the score, turned round."""
    low, high = 1e-9, 0.5
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if ruled(lost, won, of, -budget, middle) else (middle, high)
    return high


def years_of(
    years: int, world: str, reused: bool, anchored: bool, most: float = math.inf
) -> tuple[float, float, float]:
    """The share of years in which a champion is worse than the best version by more than the margin; promotions a
    year; and how much worse the last champion is, the median.

    Args:
        world: `drifting` (a pipeline that gets worse all year, 0.946 to 0.798), `worse` (by the margin), or `continued`
            (each candidate is trained on from the champion, so that its luck on reused rows stays).
        reused: the same test rows all year, else other ones each night.
        anchored: the margin counts from the best version, too.
        most: after so many promotions since the best version there is none.
    """
    random = np.random.default_rng([7, reused, list(WORLDS).index(world)])
    best = champion = np.full(years, ACCURACY)  # of all rows, what these models have right
    rows = random.random((years, ROWS))
    best_right = champion_right = _answers(random, rows, best)
    sunk, promotions, level = np.zeros(years, bool), 0, LEVEL / HORIZON
    since = np.zeros(years, int)
    for night in range(HORIZON):
        if not reused:
            rows = random.random((years, ROWS))
            best_right, champion_right = (_answers(random, rows, each) for each in (best, champion))
        if world == "continued":
            lost = 0.005 + random.uniform(0.0, 0.01, years)
            candidate = champion - lost + 0.005
            stays, turns = 1 - lost / champion, 0.005 / (1 - champion)
            right = random.random((years, ROWS)) < np.where(champion_right, stays[:, None], turns[:, None])
        else:
            candidate = np.full(years, ACCURACY - (MARGIN if world == "worse" else DRIFT * night / HORIZON))
            right = _answers(random, rows, candidate)
        promoted = _ruled(right, champion_right, MARGIN, level)
        if anchored:
            promoted &= _ruled(right, best_right, MARGIN, level)
        promoted &= since < most
        sunk |= promoted & (candidate < best - MARGIN + 1e-9)
        promotions += int(promoted.sum())
        champion = np.where(promoted, candidate, champion)
        champion_right = np.where(promoted[:, None], right, champion_right)
        better = promoted & _ruled(champion_right, best_right, 0.0, level)
        since = np.where(better, 0, since + promoted)
        best, best_right = np.where(better, champion, best), np.where(better[:, None], champion_right, best_right)
    return float(sunk.mean()), promotions / years, float(np.median(best - champion))


def _answers(random: np.random.Generator, rows: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Which rows a model has right: the easier ones, but for 2 % that each training flips by itself."""
    right, flipped = accuracy[:, None], 0.01
    return random.random(rows.shape) < np.where(rows < right, 1 - flipped / right, flipped / (1 - right))


def _ruled(ours: np.ndarray, theirs: np.ndarray, loss: float, level: float) -> np.ndarray:
    pairs = zip((ours & ~theirs).sum(1).tolist(), (theirs & ~ours).sum(1).tolist(), strict=True)
    return np.array([ruled(won, lost, ROWS, loss, level) for won, lost in pairs])
