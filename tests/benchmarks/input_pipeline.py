"""Feeding a step of training: batches from the loader beside batches that lie ready, and what an order costs."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import run

PROBES = Path(__file__).parent / "probes"
RECIPES = {"digits": "digits, 64 a step", "text": "text, 8 a step"}
# Rounds are short and the machine's other work is not: the median needs many of them.
ROUNDS = 31


def records(bench: Bench) -> Iterator[Record]:
    home = bench.folder("input-pipeline")
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    bench.progress("input pipeline")
    # The environment of this benchmark, which has torch and us.
    command = [sys.executable, PROBES / "input_pipeline.py", str(1 if bench.quick else ROUNDS), *RECIPES]
    found = json.loads(run(command, cwd=home, environment=variables, limit=600).checked().output)
    for recipe, name in RECIPES.items():
        for clock, what in (("cpu", "CPU"), ("wall", "wall")):
            pairs: list[list[float]] = found[recipe][clock]
            ready = 1000 * statistics.median(by_hand for _, by_hand in pairs)
            yield Record(
                name=f"input_pipeline: {name}, {what} of a step",
                unit="x in memory",
                ours=statistics.median(ours / by_hand for ours, by_hand in pairs),
                limit=1.0,
                target=1.05,
                note=f"{ready:.2f} ms a step with batches that lie ready",
            )
    command = [sys.executable, PROBES / "orders.py"]
    costs = json.loads(run(command, cwd=home, environment=variables).checked().output)
    for name, microseconds in costs.items():
        yield Record(
            name=f"input_pipeline: a batch of 64, {name}", unit="µs", ours=microseconds, target=100, note="its indices"
        )
