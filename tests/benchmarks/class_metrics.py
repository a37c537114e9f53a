"""Class metrics: how often compare registers a model that is no better by recall, precision, F1, AUROC or MSE.

Two models of one quality on one test set, drawn anew for each comparison, whose answers differ on some rows; a model of
classes ranks its samples by scores that share most of their noise with the champion's. Each is the other's candidate
once: only the one with the higher value can be promoted. Beside it, of three positive
samples, how often a recall of 0.6 in truth is taken for one that is not worse than 0.9 by more than 5 points.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from drivetrain.decision.deciding import rule_holds
from drivetrain.decision.differences import differences
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.policy import Policy
from drivetrain.decision.row_forms import Form, Is, Mean, Ranking, Share
from drivetrain.decision.rows import Rows
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record

SIZE, COMPARISONS, QUICK, PART = 500, 20_000, 10, 500
TARGET, ANSWER = Is(0), Is(1)
FORMS: dict[str, Form] = {
    "recall": Share((ANSWER,), (TARGET,)),
    "precision": Share((TARGET,), (ANSWER,)),
    "f1": Share((TARGET, ANSWER), (TARGET, ANSWER), "twice"),
    "auroc": Ranking(2, TARGET),
    "mse": Mean(2),
}
# Above the level by chance in fewer than 1 of 1,000 such benches, of 20,000 comparisons.
LEVELS = {1: 0.0285, 365: 9 / COMPARISONS}


class World(NamedTuple):
    """A test set with so many positive samples, on which a metric decides; how much of the models' noise is shared."""

    metric: str
    positives: int
    shared: float


WORLDS = (
    *(World("recall", positives, shared) for positives in (4, 5, 10) for shared in (0.5, 0.9)),
    *(World(metric, positives, 0.5) for metric in ("precision", "f1", "auroc") for positives in (10, 50)),
    World("mse", 250, 0.5),
)


def records(bench: Bench) -> Iterator[Record]:
    comparisons = QUICK if bench.quick else COMPARISONS
    parts = [(number, min(PART, comparisons - number)) for number in range(0, comparisons, PART)]
    pairs = [(number, min(PART, comparisons // 2 - number)) for number in range(0, comparisons // 2, PART)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for world in WORLDS:
            bench.progress(f"class metrics: {comparisons:,} comparisons by {world.metric}")
            found = list(pool.map(partial(promoted, world), pairs))
            for place, (horizon, most) in enumerate(LEVELS.items()):
                yield Record(
                    name=f"class metrics: an equal model promoted by {world.metric}, {world.positives} positives of "
                    f"{SIZE}, {world.shared:.0%} of the noise shared, horizon {horizon}",
                    unit="share",
                    ours=sum(one[place] for one in found) / comparisons,
                    target=None if bench.quick else most,
                    note=f"{comparisons:,} comparisons; level {Policy(horizon=horizon).level:.4%}",
                )
        found = list(pool.map(handful, parts))
        yield Record(
            name="class metrics: a recall of 0.6 not worse than 0.9, 3 positives",
            unit="share",
            ours=sum(found) / comparisons,
            target=0.05,
            note=f"{comparisons:,} comparisons, margin 5 points, horizon 1",
        )


def promoted(world: World, part: tuple[int, int]) -> list[int]:
    """How often, in part of the pairs, at each horizon."""
    first, count = part
    random = np.random.default_rng(
        [7, first, world.positives, int(100 * world.shared), list(FORMS).index(world.metric)]
    )
    rules = [Policy(metric=world.metric, horizon=horizon) for horizon in LEVELS]
    found = [0] * len(rules)
    for _ in range(count):
        models = [evaluation(world.metric, each) for each in pair(world, random)]
        worse, better = sorted(models, key=partial(goodness, world.metric))
        (difference,) = differences(better, worse, 0.95)
        for place, rule in enumerate(rules):
            found[place] += rule_holds(rule, difference)
    return found


def handful(part: tuple[int, int]) -> int:
    """How often a recall that is worse is registered, in part of the comparisons."""
    random = np.random.default_rng([8, part[0]])
    rule = Policy(metric="recall", rule="not_worse", margin=0.05, horizon=1)
    target = np.arange(SIZE) < 3
    found = 0
    for _ in range(part[1]):
        ours, theirs = (rows(target, target & (random.random(SIZE) < true), target) for true in (0.6, 0.9))
        (difference,) = differences(evaluation("recall", ours), evaluation("recall", theirs), 0.95)
        found += rule_holds(rule, difference)
    return found


def pair(world: World, random: np.random.Generator) -> tuple[Rows, Rows]:
    """Two models that are equally good."""
    target = np.arange(SIZE) < world.positives
    common, *own = random.standard_normal((3, SIZE))
    noise = [np.sqrt(world.shared) * common + np.sqrt(1 - world.shared) * each for each in own]
    if world.metric == "mse":
        ours, theirs = (rows(target, target, each**2) for each in noise)
    else:
        scores = [2 * target + each for each in noise]
        ours, theirs = (rows(target, each > 1, each) for each in scores)
    return ours, theirs


def rows(target: np.ndarray, answer: np.ndarray, numbers: np.ndarray) -> Rows:
    return Rows(keys=np.arange(SIZE, dtype=np.uint64), keyed=False, columns=[target, answer, numbers], forms=FORMS)


def goodness(metric: str, model: Evaluation) -> float:
    found = model.groups[""].metrics.get(metric)
    return -math.inf if found is None else found.value if found.higher_is_better else -found.value


def evaluation(metric: str, evidence: Rows) -> Evaluation:
    said = evidence.said(metric)
    values = {} if said is None else {metric: Measured(value=said.value, higher_is_better=metric != "mse")}
    return Evaluation(
        source="",
        groups={"": Group(num_samples=SIZE, metrics=values)},
        data_hash="",
        rows=SIZE,
        key=None,
        model_hash="",
        settings={},
        resampling=None,
        evidence=evidence,
    )
