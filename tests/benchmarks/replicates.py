"""Metrics of which rows say nothing: how often compare promotes a model that is no better, by the replicates.

    python -m tests.benchmarks --only replicates
    python -m tests.benchmarks --only replicates --quick      # a year of each world

In a year 365 candidates are compared, each at its share of 5 %, on other rows each night (fresh), or on the same rows
(reused), where each training draws its noise on 2 % of them anew. The year is wrong where one is promoted. A replicate
counts each row as often as a Poisson draw says, as evaluate's do, and ranks without bins.

Candidates are as good as the champion. Two are so by other answers: a `stricter` one answers with class 1 less often,
and of two calibrated models a `duller` one knows less, and gives scores that differ less.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.decision.intervals import of_replicates
from drivetrain.decision.policy import Policy
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.nights import MOST_WRONG

YEARS, QUICK, NIGHTS, REPLICATES, FIRST = 400, 1, 365, 200, 20
LEVEL = Policy().level
SHARED, FLIPPED, DISTANCE, THRESHOLD, BINS = 0.5, 0.02, 2.0, 1.0, 15

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class World(NamedTuple):
    metric: str
    size: int
    positives: int
    other: str = ""
    """How the candidate differs from the champion, as good as it is."""

    def __str__(self) -> str:
        other = f", {self.other}" if self.other else ""
        return f"{self.metric}, {self.positives} positives of {self.size}{other}"


WORLDS = (
    *(World(metric, 500, 50) for metric in ("mcc", "cohen_kappa", "average_precision", "calibration_error")),
    *(World(metric, 200, 10) for metric in ("mcc", "cohen_kappa", "average_precision")),
    *(World(metric, 500, 50, "stricter") for metric in ("mcc", "cohen_kappa")),
    World("calibration_error", 500, 50, "duller"),
)


def records(bench: Bench) -> Iterator[Record]:
    years = QUICK if bench.quick else YEARS
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for world in WORLDS:
            for is_fresh in (True, False):
                where = "fresh" if is_fresh else "reused"
                bench.progress(f"replicates: {years} years, {world}; {where}")
                wrong = sum(pool.map(partial(is_wrong, world, is_fresh), range(years), chunksize=4))
                yield Record(
                    name=f"replicates: an equal model promoted in a year, {world}; {where}",
                    unit="share",
                    ours=wrong / years,
                    target=None if bench.quick or world.metric == "calibration_error" else MOST_WRONG,
                    note=f"{wrong} of {years} years of {NIGHTS} candidates; level {LEVEL:.4%}",
                )


def is_wrong(world: World, is_fresh: bool, year: int) -> bool:
    """True where a candidate of the year is promoted."""
    random = np.random.default_rng([10, WORLDS.index(world), is_fresh, year])
    noise = random.standard_normal((3, NIGHTS if is_fresh else 1, world.size))
    if not is_fresh:
        anew = random.random((NIGHTS, world.size)) < FLIPPED
        noise = [np.where(anew, random.standard_normal(anew.shape), noise[0]), *noise[1:]]
    ours, theirs, common = (np.broadcast_to(each, (NIGHTS, world.size)) for each in noise)
    if world.metric == "calibration_error":
        target, ours, theirs = _calibrated(world, random, is_fresh, ours, theirs, common)
        return _of_weights(world, target, ours, theirs, random)
    target = np.broadcast_to(np.arange(world.size) < world.positives, ours.shape)
    distances = (_distance(world), DISTANCE)
    own = zip((ours, theirs), distances, strict=True)
    ours, theirs = (far * target + np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * each for each, far in own)
    of = _of_weights if world.metric == "average_precision" else _of_cells
    return of(world, target, ours, theirs, random)


def _of_cells(world: World, target: Bools, ours: Floats, theirs: Floats, random: np.random.Generator) -> bool:
    """A metric of the confusion matrix. A replicate counts as many rows of a cell as a Poisson draw of their number."""
    answers = [each > limit for each, limit in zip((ours, theirs), _thresholds(world), strict=True)]
    cell = 4 * target + 2 * answers[0] + answers[1]
    counts = np.stack([(cell == number).sum(axis=1) for number in range(8)], axis=-1)

    def drawn(nights: NDArray[np.int64], number: int) -> list[Floats]:
        cells = random.poisson(counts[nights][:, None], (len(nights), number, 8))
        return [agreement(world.metric, *confusion(cells, place)) for place in (1, 0)]

    values = [agreement(world.metric, *confusion(counts, place)) for place in (1, 0)]
    gains = values[0] - values[1]
    ahead = _ahead(gains, lambda nights: drawn(nights, FIRST))
    return any(
        _promoted(float(gains[night]), ours, theirs, world)
        for night, ours, theirs in zip(ahead, *drawn(ahead, REPLICATES), strict=True)
    )


def _ahead(gains: Floats, few: Callable[[NDArray[np.int64]], list[Floats]]) -> NDArray[np.int64]:
    """The nights that are not, by few replicates, far from a promotion: no others are drawn any further."""
    nights = np.flatnonzero(gains > 0)
    ours, theirs = few(nights)
    return nights[gains[nights] > 2 * np.nanstd(ours - theirs, axis=1)]


def confusion(cells: NDArray[Any], place: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Class 1 taken for 1, class 0 taken for 1, class 1 taken for 0, class 0 taken for 0."""
    split = cells.reshape(*cells.shape[:-1], 2, 2, 2).sum(axis=-1 if place else -2).astype(float)
    return split[..., 1, 1], split[..., 0, 1], split[..., 1, 0], split[..., 0, 0]


def agreement(metric: str, tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        if metric == "mcc":
            root = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
            return (tp * tn - fp * fn) / root
        chance = (tp + fp) * (tp + fn) + (tn + fp) * (tn + fn)
        total = tp + fp + fn + tn
        return (total * (tp + tn) - chance) / (total * total - chance)


def _of_weights(world: World, target: Bools, ours: Floats, theirs: Floats, random: np.random.Generator) -> bool:
    """A metric that needs each row."""
    measure = average_precision if world.metric == "average_precision" else _calibration_error
    once = np.ones((NIGHTS, 1, world.size))
    gains = measure(target, ours, once)[:, 0] - measure(target, theirs, once)[:, 0]
    if world.metric == "calibration_error":
        gains = -gains

    def drawn(nights: NDArray[np.int64], number: int) -> list[Floats]:
        weights = random.poisson(1.0, (len(nights), number, world.size)).astype(float)
        return [measure(target[nights], each[nights], weights) for each in (ours, theirs)]

    for night in _ahead(gains, lambda nights: drawn(nights, FIRST)):
        one, other = drawn(np.array([night]), REPLICATES)
        gain = float(gains[night])
        if _promoted(-gain if world.metric == "calibration_error" else gain, one[0], other[0], world):
            return True
    return False


def average_precision(target: Bools, scores: Floats, weights: Floats) -> Floats:
    order = np.argsort(-scores, axis=1)[:, None]
    weighted = np.take_along_axis(weights, order, axis=2)
    positive = weighted * np.take_along_axis(target[:, None], order, axis=2)
    taken = np.maximum(np.cumsum(weighted, axis=2), 1)
    with np.errstate(invalid="ignore"):
        return (positive * np.cumsum(positive, axis=2) / taken).sum(axis=2) / positive.sum(axis=2)


def _calibration_error(target: Bools, scores: Floats, weights: Floats) -> Floats:
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    within = np.arange(BINS) == bins[..., None]
    sums = weights @ (within * (target - scores)[..., None])
    return np.abs(sums).sum(axis=2) / weights.sum(axis=2)


def _calibrated(
    world: World, random: np.random.Generator, is_fresh: bool, ours: Floats, theirs: Floats, common: Floats
) -> tuple[Bools, Floats, Floats]:
    """Targets, and the scores of two models that know a part of what decides them, and give its probability."""
    base, slope = -1.8, 1.0
    known = [0.5 if world.other == "duller" else 0.9, 0.9]
    chance = random.standard_normal((NIGHTS if is_fresh else 1, world.size))
    target = base + slope * common + chance > 0
    scores: list[Floats] = []
    for own, part in zip((ours, theirs), known, strict=True):
        seen = part * common + np.sqrt(1 - part**2) * own
        scores.append(_normal((base + slope * part * seen) / np.sqrt(1 + slope**2 * (1 - part**2))))
    return np.broadcast_to(target, ours.shape), scores[0], scores[1]


def _normal(x: Floats) -> Floats:
    """The normal distribution (W. Cody's approximation is not in numpy): by a table, to 1e-7."""
    return np.interp(x, *_table())


@cache
def _table() -> tuple[Floats, Floats]:
    at = np.linspace(-8, 8, 16_001)
    return at, np.array([NormalDist().cdf(each) for each in at])


def _promoted(value: float, ours: Floats, theirs: Floats, world: World) -> bool:
    if world.metric == "calibration_error":
        value, ours, theirs = -value, -ours, -theirs
    if value <= 3 * np.nanstd(ours - theirs):  # the level asks for more
        return False
    found = of_replicates(value, ours.tolist(), theirs.tolist(), world.size)
    return found is not None and found.low(LEVEL) > 0


def _thresholds(world: World) -> tuple[float, float]:
    return THRESHOLD + (0.3 if world.other == "stricter" else 0.0), THRESHOLD


@cache
def _distance(world: World) -> float:
    """How far apart the candidate's classes lie, so that its metric is the champion's."""
    if world.other != "stricter":
        return DISTANCE

    def truth(distance: float, threshold: float) -> float:
        hit, false = (NormalDist().cdf(each - threshold) for each in (distance, 0.0))
        ones, others = world.positives, world.size - world.positives
        tp, fp = np.asarray(ones * hit), np.asarray(others * false)
        return float(agreement(world.metric, tp, fp, ones - tp, others - fp))

    wanted, low, high = truth(DISTANCE, THRESHOLD), 0.1, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if truth(middle, _thresholds(world)[0]) < wanted else (low, middle)
    return low
