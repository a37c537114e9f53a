"""What a checkpoint costs: until training goes on, until it is durable, in slowed steps, and until it is loaded again.

500 MB a rank on two ranks (gloo), the state of a real training with FSDP, by the Checkpointer that training has; beside
torch.save with fsync, torch.distributed.checkpoint (at once and async) and Lightning's writer, in the same processes,
each in its turn (A B C A B C). The limits are measured there, too: a copy of the same tensors into memory that is there
(pinned, where there is a GPU: then the copies come from it), and a plain write of as many bytes, through the page
cache, with fsync. Ours writes past the page cache, so it can be faster than that. A load is that of a restart: of new
processes, with no file in memory.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, run

PROBE = Path(__file__).parent / "probes" / "checkpoint"
ENVIRONMENT = "training_loops"  # torch, what our training scripts import, and Lightning
SAVE, LIMIT = "torch.save", "limit"
OF_TORCH, OF_OTHERS = (SAVE, "dcp", "dcp async"), ("lightning",)
MEGABYTES, QUICK_MEGABYTES = 500, 20

Rounds = Sequence[dict[str, dict[str, float]]]


def records(bench: Bench) -> Iterator[Record]:
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    rivals = [OURS, *OF_TORCH, *(OF_OTHERS if made else ())]
    package = bench.folder("package")
    (package / "drivetrain").symlink_to(ROOT / "drivetrain")
    work = bench.folder("checkpoints")
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(work), "OMP_NUM_THREADS": "1"}
    variables["PYTHONPATH"] = f"{package}:{PROBE.parent}"
    size = QUICK_MEGABYTES if bench.quick else MEGABYTES
    bench.progress(f"checkpoints of {size} MB a rank")
    python = made.python if made else sys.executable
    rounds = 1 if bench.quick else 5
    command = [python, PROBE / "main.py", work, str(size), str(rounds), *rivals]
    ran = run(command, cwd=work, environment=variables, limit=1500).checked()
    yield from rows(bench, json.loads(ran.output.splitlines()[-1]))


def rows(bench: Bench, found: dict[str, Any]) -> Iterator[Record]:
    """The table's rows of what the probe has found."""
    taken: Rounds = found["rounds"]
    of_all = {name: _medians(taken, name) for name in ("stall", "durable", "lost", "load")}
    device = found["device"]
    on = f"{found['bytes'] / 1e6:.0f} MB a rank, {found['processes']} processes on {device}, slowest rank"
    copy = "a copy from the GPU into pinned memory" if device == "GPU" else "a copy into memory that is there"
    notes = {
        "stall": f"{on}; limit: {copy}",
        "durable": f"{on}; limit: a plain write through the page cache with fsync (ours writes past it); Lightning's "
        "own writer does no fsync, one was added",
        "lost": f"{on}; a save and {found['steps']} steps, less these steps alone; limit: {SAVE} with fsync",
        "load": f"{on}; new processes, files not in memory; ours checks every byte; limit: torch.load",
    }
    limits = {
        "stall": of_all["stall"][LIMIT],
        "durable": of_all["durable"][LIMIT],
        "lost": of_all["lost"][SAVE],
        "load": of_all["load"][SAVE],
    }
    shares = {
        "stall": ("until training goes on", 1.2),
        "durable": ("until it is durable", 1.6),
        "lost": ("training time lost", 0.5),
        "load": ("load", 1.3),
    }
    for measure, (name, share) in shares.items():
        seconds = {rival: value for rival, value in of_all[measure].items() if rival != LIMIT}
        # Ratios of the same round, so that a busy moment hits both.
        against = LIMIT if measure in ("stall", "durable") else SAVE
        ratio = _ratio(taken, measure, OURS, against)
        yield Record(
            name=f"checkpoint: {name}",
            unit="s",
            ours=seconds.pop(OURS),
            peers=seconds,
            limit=limits[measure],
            target=share * limits[measure],
            note=bench.note(ENVIRONMENT, more=f"{notes[measure]}; ours over it in each round: {ratio}"),
        )


def _medians(rounds: Rounds, measure: str) -> dict[str, float]:
    return {name: statistics.median(one[measure][name] for one in rounds) for name in rounds[0][measure]}


def _ratio(rounds: Rounds, measure: str, ours: str, against: str) -> str:
    ratios = [one[measure][ours] / one[measure][against] for one in rounds]
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)
