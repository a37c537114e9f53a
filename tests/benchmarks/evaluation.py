"""Evaluating: accuracy, AUROC and precision-recall curve of a million predictions on two ranks.

All tools are given the same predictions in batches of 10,000, in the same two processes (gloo), each in its turn: a
busy machine is busy for all of them. Ours is the engine that `evaluate` uses, with its bound of the error and its proof
that each row was counted once.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, run

PROBE = Path(__file__).parent / "probes" / "evaluation"
ENVIRONMENT = "metrics"
BY_HAND = "by hand"
EXACT = f"{OURS} exact"
BASELINE = "torchmetrics exact"
PEERS = (BASELINE, "torchmetrics binned", "torcheval")
SAMPLES = 1_000_000
FACTOR, BOUND = 25, 1e-5
ROUNDS = 9


def records(bench: Bench) -> Iterator[Record]:
    # One environment for all: with --no-peers that of this benchmark, which has torch and us.
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    python = made.python if made else Path(sys.executable)
    tools = [BY_HAND, OURS, EXACT, *(PEERS if made else ())]
    bench.progress("evaluation: a million predictions")
    found = _probe(bench, python, SAMPLES, 1 if bench.quick else ROUNDS, tools)
    bench.progress("evaluation: four million predictions")
    larger = _probe(bench, python, 4 * SAMPLES, 0, [tool for tool in tools if tool != BY_HAND])
    yield from rows(found, larger, bench.note(ENVIRONMENT))


def _probe(bench: Bench, python: Path, samples: int, rounds: int, tools: list[str]) -> dict[str, Any]:
    work = bench.folder("evaluation")
    (work / "package").mkdir(parents=True)
    (work / "package" / "drivetrain").symlink_to(ROOT / "drivetrain")
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(work), "OMP_NUM_THREADS": "1"}
    # What is counted lies on the CPU, also where the model does not.
    variables |= {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": f"{work / 'package'}:{PROBE.parent}"}
    command = [python, PROBE / "main.py", work, str(samples), str(rounds), *tools]
    return json.loads(run(command, cwd=work, environment=variables, limit=1200).checked().output.splitlines()[-1])


def rows(found: dict[str, Any], larger: dict[str, Any], note: str) -> Iterator[Record]:
    """The rows, from what the probe printed for a million predictions and for four."""
    tools, exact = found["tools"], found["exact"]
    peers = [peer for peer in PEERS if peer in tools]
    for clock in ("wall", "cpu"):
        taken = {name: 1000 * statistics.median(tool[clock]) for name, tool in tools.items()}
        name = "time" if clock == "wall" else "CPU time of a rank"
        yield Record(
            name=f"evaluation: 1M predictions on 2 ranks, {name}",
            unit="ms",
            ours=taken[OURS],
            limit=taken[BY_HAND],
            peers={EXACT: taken[EXACT], **{peer: taken[peer] for peer in peers}},
            note=note,
        )
        if BASELINE in tools:
            yield Record(
                name=f"evaluation: times faster than {BASELINE}, {name}",
                unit="x",
                ours=statistics.median(
                    theirs / ours for theirs, ours in zip(tools[BASELINE][clock], tools[OURS][clock], strict=True)
                ),
                peers={EXACT: taken[BASELINE] / taken[EXACT]},
                target=FACTOR if clock == "wall" else None,
                better="higher",
                note="the median of the ratios of a round",
            )
    yield Record(
        name="evaluation: collectives",
        unit="calls",
        ours=tools[OURS]["collectives"],
        peers={name: tools[name]["collectives"] for name in (EXACT, *peers)},
        target=1,
    )
    yield Record(
        name="evaluation: bound of the AUROC's error, computed from the counts",
        unit="",
        ours=tools[OURS]["bound"],
        target=BOUND,
        note=f"the exact AUROC is {exact!r}, ours {tools[OURS]['auroc']!r}",
    )
    yield Record(
        name="evaluation: error of the AUROC",
        unit="",
        ours=abs(tools[OURS]["auroc"] - exact),
        peers={name: abs(tools[name]["auroc"] - exact) for name in (EXACT, *peers)},
        target=tools[OURS]["bound"],
        note="the target is our bound",
    )
    yield Record(
        name="evaluation: held on a rank",
        unit="MB",
        ours=tools[OURS]["held"] / 1e6,
        peers={name: tools[name]["held"] / 1e6 for name in (EXACT, *peers)},
    )
    yield Record(
        name="evaluation: held on a rank, 4M predictions over 1M",
        unit="x",
        ours=_growth(found, larger, OURS),
        peers={name: _growth(found, larger, name) for name in (EXACT, *peers)},
        target=1,
    )
    yield Record(
        name="evaluation: exact mode has the digits of the exact AUROC",
        unit="bool",
        ours=all(of["tools"][EXACT]["auroc"] == of["exact"] for of in (found, larger)),
        target=True,
        note=f"in {tools[EXACT]['collectives']} collectives",
    )


def _growth(found: dict[str, Any], larger: dict[str, Any], name: str) -> float:
    return larger["tools"][name]["held"] / found["tools"][name]["held"]
