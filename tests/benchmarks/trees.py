"""Trees: a table of abalone's size from raw data to a gated version, and learning and measuring by the libraries alone.

The same pipeline by hand with XGBoost and MLflow, and by Metaflow. Ours also proves its split, draws intervals, keeps
checkpoints and compares with the champion. The table has abalone's columns and rows, made by a seeded generator.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, CommandError, in_turn, run
from tests.benchmarks.harness.tool import lines_of_code

PROBE = Path(__file__).parent / "probes" / "trees"
ENVIRONMENT, BY_HAND = "trees", "by hand with MLflow"
ABALONE = 4177
PIPELINES = {
    OURS: ("abalone.py", ["-m", "drivetrain.cli.main", "run", "abalone.py"]),
    BY_HAND: ("by_hand.py", ["by_hand.py"]),
    "metaflow": ("flow.py", ["flow.py", "run"]),
}
MOST_LINES, MOST_SECONDS, PLAIN, SAMPLED, MICROSECONDS = 40, 10, 1.03, 1.10, 25


def records(bench: Bench) -> Iterator[Record]:
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    python = made.python if made else Path(sys.executable)
    folders = [bench.folder(f"trees-{tool.split()[0]}") for tool in PIPELINES]
    (folders[0] / "package").mkdir()
    (folders[0] / "package" / "drivetrain").symlink_to(ROOT / "drivetrain")
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(folders[0] / "package"), "USERNAME": "bench"}

    def pipeline(tool: str) -> float:
        name, command = PIPELINES[tool]
        work = bench.folder("trees-run")
        (work / name).write_bytes((PROBE / name).read_bytes())
        write_abalone(work / "abalone.csv")
        ran = run([python, *command], cwd=work, environment={**variables, "HOME": str(work)}).checked()
        if tool == OURS and "abalone version 1" not in ran.output + ran.errors:
            raise CommandError("the run registered no version")
        return ran.cpu

    tools = [*PIPELINES] if made else [OURS]
    bench.progress("trees: from raw data to a version")
    taken = in_turn(
        {tool: lambda tool=tool: pipeline(tool) for tool in tools}, rounds=bench.rounds, failed=bench.failed
    )
    yield Record(
        name="trees: abalone, from raw data to a gated version, CPU time",
        unit="s",
        ours=taken.pop(OURS),
        target=MOST_SECONDS,
        peers=taken,
        note=bench.note(ENVIRONMENT, more="Metaflow has no registry; only ours draws intervals"),
    )
    lines = {tool: lines_of_code((PROBE / name).read_text(encoding="utf-8")) for tool, (name, _) in PIPELINES.items()}
    yield Record(
        name="trees: abalone, lines to write", unit="lines", ours=lines.pop(OURS), target=MOST_LINES, peers=lines
    )

    def probed(*arguments: Any) -> dict[str, Any]:
        words = [python, PROBE / "main.py", *map(str, arguments)]
        ran = run(words, cwd=folders[0], environment={**variables, "HOME": str(folders[0])}, limit=1200).checked()
        return json.loads(ran.output.splitlines()[-1])

    bench.progress("trees: learning")
    rows = 4_000 if bench.quick else 60_000
    for library, plain in (("XGBoost", PLAIN), ("LightGBM", SAMPLED)):
        learnt = probed("learn", bench.folder("trees-learn"), rows, bench.rounds, library.lower())
        for kind, most in (("plain", plain), ("sampled", SAMPLED)):
            yield ratio(f"trees: learning, {kind}, CPU over {library} alone", learnt[kind], most, f"{rows:,} rows x 20")
    bench.progress("trees: measuring")
    rows = 20_000 if bench.quick else 400_000
    measured = probed("measure", rows, bench.rounds)
    yield ratio(
        "trees: 12 metrics, CPU over scikit-learn", measured["metrics"], 1.0, f"{rows:,} rows, without intervals"
    )
    yield Record(
        name="trees: 12 metrics with 200 replicates, CPU a row",
        unit="us",
        ours=statistics.median(measured["replicates"]) / rows * 1e6,
        target=MICROSECONDS,
    )


def ratio(name: str, rounds: Sequence[Sequence[float]], most: float, note: str) -> Record:
    """The median of the ratios of the rounds."""
    found = statistics.median(ours / theirs for ours, theirs in rounds)
    return Record(name=name, unit="x", ours=found, limit=1.0, target=most, note=note)


def write_abalone(path: Path) -> None:
    """A table with abalone's columns, rows and ranges (UCI Machine Learning Repository, data set 1), and a key."""
    random = np.random.default_rng(7)
    length = np.clip(random.gamma(6, 0.09, ABALONE) + 0.07, 0.075, 0.815)
    infant = random.random(ABALONE) < np.where(length < 0.4, 0.75, 0.1)
    sex = np.where(infant, "I", np.where(random.random(ABALONE) < 0.5, "M", "F"))
    whole = 2.8 * length**3 + np.abs(random.normal(0, 0.05, ABALONE))
    columns = {
        "length": length,
        "diameter": 0.8 * length + random.normal(0, 0.01, ABALONE),
        "height": np.abs(0.27 * length + random.normal(0, 0.01, ABALONE)),
        "whole": whole,
        "shucked": 0.43 * whole + random.normal(0, 0.02, ABALONE),
        "viscera": 0.22 * whole + random.normal(0, 0.01, ABALONE),
        "shell": 0.29 * whole + random.normal(0, 0.02, ABALONE),
    }
    rings = 2 + 12 * length + 8 * columns["shell"] + 1.5 * ~infant + random.gamma(2, 1, ABALONE)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "sex", *columns, "rings"])
        numbers = [np.round(values, 4) for values in columns.values()]
        writer.writerows(zip(range(ABALONE), sex, *numbers, np.clip(rings, 1, 29).astype(int), strict=True))
