"""What watching a training costs at its defaults, beside TensorBoard's histograms every 50 steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import run

PROBE = Path(__file__).parent / "probes/health.py"
MODELS = ("10M parameters", "1,000 layers")
ROUNDS, QUICK = 40, 6


def records(bench: Bench) -> Iterator[Record]:
    home = bench.folder("health")
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for model in MODELS:
        bench.progress(f"health: {model}")
        # The environment of this benchmark, which has torch, tensorboard and us.
        command = [sys.executable, PROBE, model, str(QUICK if bench.quick else ROUNDS)]
        found = json.loads(run(command, cwd=home, environment=variables, limit=1200).checked().output.splitlines()[-1])
        totals = {way: sum(seconds) for way, seconds in found["seconds"].items()}
        step = 1000 * totals["none"] / (len(found["seconds"]["none"]) * found["steps"])
        yield Record(
            name=f"health: {model}, CPU of a step",
            unit="x unwatched",
            ours=totals["health"] / totals["none"],
            limit=1.0,
            peers={"tensorboard": totals["tensorboard"] / totals["none"]},
            target=1.01,
            note=f"{step:.1f} ms a step; all steps added up, those whose tensors were summed up among them",
        )
        yield Record(name=f"health: {model}, losses to the bit", unit="bool", ours=bool(found["same"]), target=True)
