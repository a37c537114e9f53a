"""Nights of metrics: how often a line that is no better by a metric of classes or MSE is promoted.

    python -m tests.benchmarks --only metric_nights
    python -m tests.benchmarks --only metric_nights --quick      # a year of each world

A candidate shares half or nine tenths of its noise with the champion. **Reused**: the same rows all
year; on a share `f` of them each training draws its noise anew. **Fresh**: other rows each night. Candidates of a line
may differ truly, by half a point of the metric up or down, and be no better on average. A `stricter` candidate answers
with class 1 less often, and is as good all the same. In a year four lines run for 91 nights each, and the year is wrong
where one of them is shown to be better at any look.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.decision.nights import LOOKS, SPENT, by_nights, by_rows
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.nights import MOST_WRONG

YEARS, QUICK, LINES, NIGHTS, DRAWS, FIRST = 400, 1, 4, 91, 50_000, 8_000
LEVEL = 0.05 / LINES
DISTANCE, THRESHOLD, APART = 2.0, 1.0, 0.005

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class World(NamedTuple):
    """A test set, and how much of the models' noise is shared."""

    metric: str
    size: int
    positives: int
    shared: float
    stricter: float = 0.0

    def __str__(self) -> str:
        of = "" if self.metric == "mse" else f"{self.positives} positives of "
        stricter = ", stricter" if self.stricter else ""
        return f"{self.metric}, {of}{self.size:,} rows, {self.shared:.0%} of the noise shared{stricter}"


class Year(NamedTuple):
    """How the nights of a line differ."""

    name: str
    is_fresh: bool
    flipped: float = 0.0
    apart: float = 0.0


WORLDS = (
    *(World("recall", 500, positives, 0.9) for positives in (4, 5, 10)),
    *(World(metric, 500, 50, shared) for metric in ("precision", "f1", "auroc") for shared in (0.5, 0.9)),
    *(World(metric, 500, 10, 0.5) for metric in ("precision", "f1", "auroc")),
    *(World(metric, 500, 50, 0.5, 0.3) for metric in ("precision", "f1")),
    *(World("mse", 500, 0, shared) for shared in (0.5, 0.9)),
    *(World("balanced_accuracy", 500, positives, 0.5) for positives in (1, 4, 10)),
)
YEARLY = (
    Year("f=0", False),
    Year("f=2 %", False, 0.02),
    Year("f=2 %, candidates differ", False, 0.02, APART),
    Year("fresh", True),
    Year("fresh, candidates differ", True, 0.0, APART),
)


def records(bench: Bench) -> Iterator[Record]:
    years = QUICK if bench.quick else YEARS
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for world in WORLDS:
            for yearly in YEARLY:
                bench.progress(f"metric nights: {years} years, {world}; {yearly.name}")
                wrong = sum(pool.map(partial(is_wrong, world, yearly), range(years), chunksize=5))
                yield Record(
                    name=f"metric nights: a line that is no better promoted in a year, {world}; {yearly.name}",
                    unit="share",
                    ours=wrong / years,
                    target=None if bench.quick else MOST_WRONG,
                    note=f"{wrong} of {years} years of {LINES} lines of {NIGHTS} nights",
                )


def is_wrong(world: World, yearly: Year, year: int) -> bool:
    """True where one of the year's lines is shown to be better."""
    random = np.random.default_rng([9, WORLDS.index(world), YEARLY.index(yearly), year])
    return any(line(world, yearly, random) for _ in range(LINES))


def line(world: World, yearly: Year, random: np.random.Generator) -> bool:
    """True where a line is shown to be better at one of its looks."""
    target = np.arange(world.size) < world.positives
    sets = NIGHTS if yearly.is_fresh else 1
    common, theirs, ours = random.standard_normal((3, sets, world.size))
    if yearly.flipped:
        anew = random.random((NIGHTS, world.size)) < yearly.flipped
        ours = np.where(anew, random.standard_normal(anew.shape), ours)
    ups = random.choice([-1, 1], (NIGHTS, 1)) if yearly.apart else np.zeros((len(ours), 1), int)
    noise = [np.sqrt(world.shared) * common + np.sqrt(1 - world.shared) * own for own in (ours, theirs)]
    parts = differences(world, target, noise, ups)
    gains = parts.sum(axis=1)
    if yearly.is_fresh:
        return by_fresh_rows(parts[0], gains)
    return by_same_rows(np.broadcast_to(parts, (NIGHTS, world.size)), np.broadcast_to(gains, NIGHTS))


def by_same_rows(parts: Floats, gains: Floats) -> bool:
    looks = [look for look in LOOKS if look <= NIGHTS]
    means = np.cumsum(parts, axis=0)[np.array(looks) - 1] / np.array(looks)[:, None]
    return any(
        hopeful(means[place], look) and by_rows(means[: place + 1], gains[:look].tolist(), LEVEL, DRAWS).is_better
        for place, look in enumerate(looks)
    )


def by_fresh_rows(first: Floats, gains: Floats) -> bool:
    if hopeful(first, 1) and by_rows(first[None], gains[:1].tolist(), LEVEL, DRAWS).is_better:
        return True
    return any(
        hopeful(gains[:look], look) and by_nights(gains[:look].tolist(), LEVEL, DRAWS).is_better
        for look in LOOKS[1:]
        if look <= NIGHTS
    )


def hopeful(units: Floats, look: int) -> bool:
    """Return False if chance alone gives as much too often for a promotion (each unit as likely to say the opposite).

    A part of the draws decides, with five of their deviations to spare: only what passes is worth all of them.
    """
    if units.sum() <= 1.8 * np.sqrt((units**2).sum()):
        return False
    above = np.count_nonzero(_signs()[:, : len(units)] @ units.astype(np.float32) >= units.sum() * (1 - 1e-5))
    most = FIRST * LEVEL * SPENT[look]
    return above <= most + 5 * math.sqrt(most) + 5


@cache
def _signs() -> NDArray[np.float32]:
    signs = np.random.default_rng(1).integers(0, 2, (FIRST, 500), dtype=np.int8)
    return signs.astype(np.float32) * 2 - 1


def differences(world: World, target: Bools, noise: list[Floats], ups: NDArray[np.int64]) -> Floats:
    """Nights x rows: what each row adds to the gain, as `drivetrain.decision.rows.paired` says it.

    Args:
        noise: the candidates' and the champion's, nights x rows.
        ups: nights x 1: whether the candidate is truly better (1), worse (-1) or as good (0).
    """
    if world.metric == "mse":
        return (noise[1] ** 2 - noise[0] ** 2 * (1 - APART * ups)) / world.size
    apart = np.array([distance(world, up * APART) for up in (0, 1, -1)])[ups]
    scores = [apart * target + noise[0], DISTANCE * target + noise[1]]
    if world.metric == "auroc":
        (value, change), (other, beside) = (placements(each, target) for each in scores)
        return np.where(target, (value - other) / target.sum(), 0.0) + (change - beside) / world.size
    if world.metric == "balanced_accuracy":
        right = [(each > THRESHOLD) == target for each in scores]
        weight = np.where(target, target.sum(), (~target).sum())
        return (right[0] * 1.0 - right[1]) / (2 * weight)
    thresholds = (THRESHOLD + world.stricter, THRESHOLD)
    ours, theirs = (share(world, each > limit, target) for each, limit in zip(scores, thresholds, strict=True))
    said = ours.of | theirs.of
    gain = (ours.value - theirs.value) / np.maximum(said.sum(axis=1, keepdims=True), 1)
    return np.where(said, gain, 0.0) + (ours.changes - theirs.changes) / world.size


class Share(NamedTuple):
    """Of nights x rows: the value, what each row changes, and of which rows it is a share."""

    value: Floats
    changes: Floats
    of: Bools


def share(world: World, answers: Bools, target: Bools) -> Share:
    right = answers & target
    of: Bools = {"recall": np.broadcast_to(target, answers.shape), "precision": answers, "f1": answers | target}[
        world.metric
    ]
    total = np.maximum(of.sum(axis=1, keepdims=True), 1)
    value = right.sum(axis=1, keepdims=True) / total
    changes = np.where(of, world.size / total * (right - value), 0.0)
    if world.metric == "f1":  # 2 x / (1 + x)
        changes, value = changes * 2 / (1 + value) ** 2, 2 * value / (1 + value)
    return Share(value, changes, of)


def placements(scores: Floats, target: Bools) -> tuple[Floats, Floats]:
    """The AUROC of each night, and what each row changes."""
    ranks = _ranks(scores)
    positives, negatives = int(target.sum()), int((~target).sum())
    won = np.empty_like(scores)
    won[:, target] = (ranks[:, target] - _ranks(scores[:, target])) / negatives
    won[:, ~target] = 1 - (ranks[:, ~target] - _ranks(scores[:, ~target])) / positives
    value = won[:, target].mean(axis=1, keepdims=True)
    return value, np.where(target, len(target) / positives, len(target) / negatives) * (won - value)


def _ranks(scores: Floats) -> Floats:
    order = np.argsort(scores, axis=1)
    ranks = np.empty(scores.shape)
    np.put_along_axis(ranks, order, np.arange(scores.shape[1], dtype=float)[None], axis=1)
    return ranks


@cache
def distance(world: World, better: float) -> float:
    """How far apart the candidate's classes lie, so that its metric is better than the champion's by so much."""
    wanted = truth(world, DISTANCE, THRESHOLD) + better
    low, high = 0.1, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        is_less = truth(world, middle, THRESHOLD + world.stricter) < wanted
        low, high = (middle, high) if is_less else (low, middle)
    return low


def truth(world: World, distance: float, threshold: float) -> float:
    below: Callable[[float], float] = NormalDist().cdf
    if world.metric == "auroc":
        return below(distance / 2**0.5)
    hits = world.positives * below(distance - threshold)
    answers = hits + (world.size - world.positives) * below(-threshold)
    return {
        "recall": hits / world.positives,
        "balanced_accuracy": (hits / world.positives + below(threshold)) / 2,
        "precision": hits / answers,
        "f1": 2 * hits / (answers + world.positives),
    }[world.metric]
