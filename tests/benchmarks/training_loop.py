"""What a step of the training loop costs over the same step in a loop written by hand, ours with everything on.

All loops train the same model on the same batches in memory, in the same two processes (gloo), each ten steps in its
turn: a busy machine is busy for all of them. CPU time of both processes; where there is a GPU, wall time on it (nccl, a
process a GPU).

On the CPU our launcher runs ranks in batch mode, which spares them much of gloo's polling where they fill all cores.
The others run as torchrun starts them; "by hand in batch mode" is the loop by hand without that difference.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, run

PROBE = Path(__file__).parent / "probes" / "training_loops"
ENVIRONMENT = "training_loops"
RECIPES = {"digits_cnn": "digits", "small_transformer": "a small transformer"}
BY_HAND, IN_BATCH_MODE = "by hand", "by hand in batch mode"
PEERS = ("fabric", "lightning", "accelerate")
# Our loop, and the others likewise, reports every 50 steps: segments of 10 are added up to that.
SEGMENTS, STEPS = 5, 50
# Segments of a training; the first four are its warm-up.
ALL, QUICK = 96, 9


def records(bench: Bench) -> Iterator[Record]:
    # One environment for all: with --no-peers that of this benchmark, which has torch and us.
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    loops = [BY_HAND, IN_BATCH_MODE, OURS, *(PEERS if made else ())]
    package = bench.folder("package")
    (package / "drivetrain").symlink_to(ROOT / "drivetrain")
    python = made.python if made else sys.executable
    for recipe, name in RECIPES.items():
        bench.progress(f"training loop: {name}")
        work = bench.folder(recipe)
        variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(work), "OMP_NUM_THREADS": "1"}
        variables["PYTHONPATH"] = f"{package}:{PROBE.parent}"
        data = [python, PROBE / "data.py", recipe, work, str(QUICK if bench.quick else ALL)]
        run(data, cwd=work, environment=variables).checked()
        rounds = str(bench.rounds)
        command = [python, PROBE / "main.py", work, recipe, bench.folder("loops"), rounds, *loops]
        ran = run(command, cwd=work, environment=variables, limit=1200).checked()
        found = json.loads(ran.output.splitlines()[-1])
        ratios, milliseconds = _measured(found["segments"], found["processes"])
        times = ", ".join(f"{loop} {taken:.2f} ms" for loop, taken in milliseconds.items())
        on = f"{found['processes']} processes on {found['device']}"
        clock = "time" if found["device"] == "GPU" else "CPU"
        yield Record(
            name=f"training_loop: {name}, {clock} of a step",
            unit="x by hand",
            ours=ratios[OURS],
            limit=1.0,
            peers={peer: ratios[peer] for peer in (IN_BATCH_MODE, *PEERS) if peer in ratios},
            target=1.02,
            note=bench.note(ENVIRONMENT, more=f"{on}; a step of a process: {times}"),
        )
        yield Record(
            name=f"training_loop: {name}, losses equal those by hand to the bit",
            unit="bool",
            ours=found["equal"],
            target=True,
        )


def _measured(rounds: list[dict[str, list[float]]], processes: int) -> tuple[dict[str, float], dict[str, float]]:
    """Each loop's time over the one by hand, side by side; and the milliseconds of a step. Both are medians."""
    taken: dict[str, list[float]] = {}
    for one in rounds:
        for loop, segments in one.items():
            whole = len(segments) - len(segments) % SEGMENTS
            sums = [sum(segments[first : first + SEGMENTS]) for first in range(0, whole, SEGMENTS)]
            taken.setdefault(loop, []).extend(sums)
    by_hand = taken[BY_HAND]
    ratios = {
        loop: statistics.median(ours / hand for ours, hand in zip(sums, by_hand, strict=True))
        for loop, sums in taken.items()
    }
    return ratios, {loop: 1000 * statistics.median(sums) / STEPS / processes for loop, sums in taken.items()}
