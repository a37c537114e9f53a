"""What watching a training costs at its defaults, beside TensorBoard's histograms, smdebug's hook and W&B's `watch`.

CPU time of the thread that trains: a busy machine changes it little, and wall time much.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, run

PROBE = Path(__file__).parent / "probes/health.py"
MODELS = ("10M parameters", "1,000 layers")
ENVIRONMENT = "watching"
PEERS = ("tensorboard", "smdebug", "wandb")
# Pairs of blocks of 5 steps, at least and at most. Peers keep something every 50 steps.
PAIRS, QUICK, OF_PEERS = (100, 500), (10, 10), (50, 50)


def records(bench: Bench) -> Iterator[Record]:
    # One environment for all: with --no-peers that of this benchmark, which has torch, tensorboard and us.
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    package = bench.folder("package")
    (package / "drivetrain").symlink_to(ROOT / "drivetrain")

    def measured(model: str, way: str, pairs: tuple[int, int]) -> dict[str, Any]:
        bench.progress(f"health: {model}, {way}")
        home = bench.folder(way)
        variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "OMP_NUM_THREADS": "1"}
        variables["PYTHONPATH"] = f"{package}:{PROBE.parent}"
        command = [made.python if made else sys.executable, PROBE, model, *map(str, QUICK if bench.quick else pairs)]
        ran = run([*command, way], cwd=home, environment=variables, limit=2400).checked()
        return json.loads(ran.output.splitlines()[-1])

    for model in MODELS:
        found = measured(model, OURS, PAIRS)
        peers = {way: measured(model, way, OF_PEERS)["cpu"][0] for way in (PEERS if made else PEERS[:1])}
        intervals = {name: f"{found[name][1]:.4f} to {found[name][2]:.4f}" for name in ("cpu", "wall")}
        yield Record(
            name=f"health: {model}, CPU of a step",
            unit="x unwatched",
            ours=found["cpu"][0],
            limit=1.0,
            peers=peers,
            target=1.01,
            note=bench.note(
                ENVIRONMENT,
                more=f"{1000 * found['step']:.1f} ms a step; {found['pairs']} pairs, 95 % interval {intervals['cpu']}; "
                f"by the clock {found['wall'][0]:.4f}, {intervals['wall']}",
            ),
        )
        yield Record(name=f"health: {model}, losses to the bit", unit="bool", ours=bool(found["same"]), target=True)
