"""The cost of trust in data: check_data on many columns, row rules in prepare_data, and the memory of both."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, in_turn, run

COLUMNS, NIGHTS, MOST_CPU_S, MOST_READ_MB = 1000, 60, 1.0, 5.0
RULES, MOST_ADDED = 20, 1.10
ROUNDS = 7
"""An odd number: medians of CPU time on a busy machine."""
LARGE_ROWS, LARGE_COLUMNS, MOST_PEAK_MB = 10_000_000, 50, 2 * 1024**3 / 1e6


def records(bench: Bench) -> Iterator[Record]:
    yield from _wide(bench)
    yield from _rules(bench)
    if not bench.quick:
        yield from _large(bench)


def _wide(bench: Bench) -> Iterator[Record]:
    work, columns = bench.folder("wide"), 100 if bench.quick else COLUMNS
    _said("check_data", work, "prepare", work, columns, 5000, NIGHTS)
    (work / "evidence").rename(work / "kept")
    found: dict[str, Any] = {}

    def check() -> float:  # each time for the first time
        shutil.rmtree(work / "evidence", ignore_errors=True)
        shutil.copytree(work / "kept", work / "evidence")
        found.update(_said("check_data", work, "check", work))
        return found["cpu"]

    cpu = in_turn({OURS: check}, rounds=bench.rounds)[OURS]
    where = f"{columns:,} columns against {found['nights']} nights and a training set"
    yield Record(name=f"check_data: {where}, CPU time", unit="s", ours=cpu, target=MOST_CPU_S, note="after imports")
    read = found["read"] / 1e6
    yield Record(name=f"check_data: {where}, read", unit="MB", ours=read, target=MOST_READ_MB)


def _rules(bench: Bench) -> Iterator[Record]:
    work, rows = bench.folder("rules"), 20_000 if bench.quick else 1_000_000
    _said("row_rules", work, "write", work, rows, 20)
    for suffix in ("parquet", "csv"):
        bench.progress(f"check_data: {RULES} row rules, {suffix}")

        def prepare(count: int, suffix: str = suffix) -> float:
            return _said("row_rules", work, "prepare", work, suffix, count)["cpu"]

        rivals = {OURS: partial(prepare, RULES), "without": partial(prepare, 0)}
        taken = in_turn(rivals, rounds=1 if bench.quick else ROUNDS)
        yield Record(
            name=f"check_data: CPU time of prepare_data with {RULES} row rules, {suffix}",
            unit="s",
            ours=taken[OURS],
            limit=taken["without"],
            target=None if bench.quick else MOST_ADDED * taken["without"],
            note=f"{rows:,} rows of 20 columns; the limit is without rules",
        )


def _large(bench: Bench) -> Iterator[Record]:
    work = bench.folder("large")
    bench.progress(f"check_data: writing {LARGE_ROWS:,} rows of {LARGE_COLUMNS} columns")
    _said("row_rules", work, "write", work, LARGE_ROWS, LARGE_COLUMNS)
    found = _said("row_rules", work, "whole", work, RULES)
    size = (work / "rows.parquet").stat().st_size / 1e9
    shutil.rmtree(work)
    yield Record(
        name=f"check_data: peak memory with prepare_data and {RULES} row rules, {LARGE_ROWS:,} rows x {LARGE_COLUMNS}",
        unit="MB",
        ours=found["peak"] / 1e6,
        target=MOST_PEAK_MB,
        note=f"{size:.1f} GB of Parquet, {found['wall']:.0f} s",
    )


def _said(probe: str, home: Path, *words: object) -> dict[str, Any]:
    """The JSON that a probe prints last; empty where it prints none."""
    environment = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", f"tests.benchmarks.probes.{probe}", *map(str, words)]
    output = run(command, cwd=ROOT, environment=environment, limit=3600).checked().output.splitlines()
    return json.loads(output[-1]) if output and output[-1].startswith("{") else {}
