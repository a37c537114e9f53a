"""Going to the middle of an epoch of a million samples, beside reading up to it, and beside torchdata's loader."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, CommandError, run

PROBE = Path(__file__).parent / "probes" / "seek.py"
PEER = "torchdata"
LENGTH, GLOBAL_BATCH = 16, 64


def records(bench: Bench) -> Iterator[Record]:
    rows = 1_000_000  # a second; of fewer rows even the whole replay is too short for a share to mean much
    home = bench.folder("cursor-seek")
    (home / "rows.txt").write_bytes(os.urandom(rows * LENGTH + 1))
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    # For ours the environment of this benchmark, which has torch and us.
    pythons: dict[str, Path | str] = {OURS: sys.executable}
    pythons |= {name: environment.python for name, environment in bench.peers(PEER).items()}
    found: dict[str, dict[str, Any]] = {}
    for name, python in pythons.items():
        bench.progress(f"cursor seek: {name}")
        command = [python, PROBE, name, home, str(rows), str(GLOBAL_BATCH)]
        try:
            ran = run(command, cwd=home, environment=variables, limit=600).checked()
        except CommandError as error:
            if name == OURS:
                raise
            bench.failed[name] = str(error).splitlines()[-1]
            continue
        found[name] = json.loads(ran.output.splitlines()[-1])
    seeks = {name: 1000 * said["seek"][0] for name, said in found.items()}
    shares = {name: said["seek"][1] / said["replay"][1] for name, said in found.items()}
    equal = {name: bool(said["equal"]) for name, said in found.items()}
    replays = ", ".join(f"{name} reads up to it in {said['replay'][0]:.2f} s" for name, said in found.items())
    yield Record(
        name=f"cursor_seek: middle of {rows:,} samples, until its batch is there",
        unit="ms",
        ours=seeks.pop(OURS),
        peers=seeks,
        note=bench.note(PEER, more=replays),
    )
    yield Record(
        name="cursor_seek: share of the CPU time to read up to it",
        unit="share",
        ours=shares.pop(OURS),
        peers=shares,
        target=0.01,
    )
    yield Record(
        name="cursor_seek: the batch is the same to the bit",
        unit="bool",
        ours=equal.pop(OURS),
        peers=equal,
        target=True,
    )
