"""What watching a training costs at its defaults, beside TensorBoard's histograms, smdebug's hook and W&B's `watch`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, run

PROBE = Path(__file__).parent / "probes/health.py"
MODELS = ("10M parameters", "1,000 layers")
ENVIRONMENT = "watching"
PEERS = ("tensorboard", "smdebug", "wandb")
ROUNDS, QUICK = 40, 6


def records(bench: Bench) -> Iterator[Record]:
    home = bench.folder("health")
    # One environment for all: with --no-peers that of this benchmark, which has torch, tensorboard and us.
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    ways = ["none", OURS, *(PEERS if made else PEERS[:1])]
    package = bench.folder("package")
    (package / "drivetrain").symlink_to(ROOT / "drivetrain")
    python = made.python if made else sys.executable
    variables = {
        **QUIET,
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(package),
        "OMP_NUM_THREADS": "1",
    }
    for model in MODELS:
        bench.progress(f"health: {model}")
        command = [python, PROBE, model, str(QUICK if bench.quick else ROUNDS), *ways]
        found = json.loads(run(command, cwd=home, environment=variables, limit=1200).checked().output.splitlines()[-1])
        totals = {way: sum(seconds) for way, seconds in found["seconds"].items()}
        step = 1000 * totals["none"] / (len(found["seconds"]["none"]) * found["steps"])
        yield Record(
            name=f"health: {model}, CPU of a step",
            unit="x unwatched",
            ours=totals[OURS] / totals["none"],
            limit=1.0,
            peers={way: totals[way] / totals["none"] for way in PEERS if way in totals},
            target=1.01,
            note=bench.note(
                ENVIRONMENT,
                more=f"{step:.1f} ms a step; all steps added up, those whose tensors were summed up among them",
            ),
        )
        yield Record(name=f"health: {model}, losses to the bit", unit="bool", ours=bool(found["same"]), target=True)
