"""Coverage: how often an interval that is printed holds the truth, of values and of differences of two models.

    python -m tests.benchmarks --only coverage
    python -m tests.benchmarks --only coverage --quick      # few draws, small test sets

Shares are enumerated exactly: all outcomes of a test set with their probabilities. All else is drawn 2,000 times a
cell, from models whose truth is known: a cell fails where the upper end of its 99 % binomial interval lies below 0.93.
A model of two classes scores normal distributions that lie `distance` apart; the other model's scores correlate with
its own. Errors of a number come from distributions with light and with heavy tails. The intervals are the product's:
evaluate's of values (closed forms without the replicates that widen them; of means with 200 replicates), compare's of
differences, from rows. All cells go to build/coverage.txt, with how many draws had an interval at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.coverage_cells import (
    MODELS,
    SIZES,
    TAILS,
    Found,
    of_keys,
    of_models,
    of_pairs,
    of_quantiles,
    of_shares,
    of_tails,
)
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record

TABLE = ROOT / "build" / "coverage.txt"
LEAST, LEAST_PRINTED = 0.93, 0.95
DRAWS, QUICK_DRAWS = 2000, 5


def records(bench: Bench) -> Iterator[Record]:
    draws = QUICK_DRAWS if bench.quick else DRAWS
    sizes = SIZES[:1] if bench.quick else SIZES
    jobs: list[Callable[[], list[Found]]] = []
    for size in sizes:
        jobs += [partial(of_pairs, size), partial(of_shares, size)]
        jobs += [partial(of_models, models, size, draws) for models in (MODELS[4:5] if bench.quick else MODELS)]
        jobs += [partial(of_tails, tail, size, draws) for tail in TAILS]
        jobs += [partial(of_keys, size, draws), partial(of_quantiles, size, draws)]
    found: list[Found] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for number, results in enumerate(pool.map(_called, jobs), 1):
            found += results
            bench.progress(f"coverage: {number} of {len(jobs)} parts")
    TABLE.parent.mkdir(exist_ok=True)
    head = f"{'WHAT':38} {'MODEL':66} {'ROWS':>5}  PRINTED  HOLDS   WIDTH\n"
    TABLE.write_text(head + "".join(map(_line, found)), encoding="utf-8")
    place = TABLE.relative_to(ROOT)
    for what in dict.fromkeys(one.cell.what for one in found):
        some = [one for one in found if one.cell.what == what and one.printed]
        held = [one for one in some if one.cell.held]
        if held:
            worst = min(held, key=lambda one: one.at_most)
            yield Record(
                name=f"coverage: {what}, upper end of the lowest of {len(held)} cells",
                unit="share",
                ours=worst.at_most,
                target=LEAST,
                better="higher",
                note=f"{_told(worst)}; all in {place}",
            )
        must = [one for one in found if one.cell.what == what and one.cell.printed]
        if must:
            rarest = min(must, key=lambda one: one.printed)
            yield Record(
                name=f"coverage: {what}, printed",
                unit="share",
                ours=rarest.printed,
                target=LEAST_PRINTED,
                better="higher",
                note=_told(rarest),
            )
        beyond = [one for one in some if not one.cell.held]
        if beyond:
            worst = min(beyond, key=lambda one: one.holds)
            yield Record(
                name=f"coverage: {what}, heavy tails, lowest",
                unit="share",
                ours=worst.holds,
                better="higher",
                note=_told(worst),
            )


def _called(job: Callable[[], list[Found]]) -> list[Found]:
    return job()


def _line(one: Found) -> str:
    cell = one.cell
    return (
        f"{cell.what:38} {cell.model:66} {cell.size:5}  {one.printed:7.3f}  {one.holds:.4f}  {one.width:.4f}"
        f"{'' if cell.held else '  (told)'}\n"
    )


def _told(one: Found) -> str:
    how = f"{one.draws:,} draws" if one.draws else "enumerated"
    return f"{one.holds:.3f}: {one.cell.model}, n={one.cell.size}; {how}, {one.printed:.0%} printed"
