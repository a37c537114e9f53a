"""Preparing a table: BLAKE2b of each key, the split, Parquet, statistics and checksums, from CSV and from Parquet.

The limit is the same work by hand in Polars, which holds the whole table. Peers are pandas, DuckDB and Spark (on all
cores of this machine), by hand too. Spark comes from .venvs/spark (`make .venvs/spark/.installed`; needs Java). Imports
and the start of its session do not count. `--gigabytes 5` is a larger table, which pandas and Polars hold whole.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, CommandError, in_turn, run

PROBE = Path(__file__).parent / "probes" / "prepare_data.py"
ENVIRONMENT = "tables"
BY_HAND, PEERS, SPARK = "polars", ("pandas", "duckdb"), "spark"
SPARK_FOLDER = ROOT / ".venvs" / "spark"
ROWS, QUICK_ROWS = 9_000_000, 20_000
BYTES_EACH = 69.9  # of a row, as CSV
FACTOR, PEAK_MIB = 1.15, 2048


def records(bench: Bench) -> Iterator[Record]:
    made = bench.peers(ENVIRONMENT).get(ENVIRONMENT)
    python = made.python if made else Path(sys.executable)
    tools = (OURS, BY_HAND, *(PEERS if made else ()), *([SPARK] if made and not _spark_is_missing() else []))
    rows = round(bench.gigabytes * 1e9 / BYTES_EACH) if bench.gigabytes else QUICK_ROWS if bench.quick else ROWS
    work = bench.folder("prepare_data")
    (work / "package").mkdir()
    (work / "package" / "drivetrain").symlink_to(ROOT / "drivetrain")
    bench.progress(f"prepare_data: writing {rows:,} rows")
    write_table(work, rows)
    for suffix in ("csv", "parquet"):
        yield from _rows(bench, python, tools, work, rows, suffix)


def _rows(bench: Bench, python: Path, tools: tuple[str, ...], work: Path, rows: int, suffix: str) -> Iterator[Record]:
    found: dict[str, dict[str, Any]] = {}
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(work), "TMPDIR": str(work)}

    def prepare(tool: str) -> float:
        out = work / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        command = [python, PROBE, tool, work / f"rows.{suffix}", out]
        path = [work / "package", *([SPARK_FOLDER] if tool == SPARK else [])]
        environment = {**variables, "PYTHONPATH": os.pathsep.join(map(str, path))}
        ran = run(command, cwd=work, environment=environment, limit=max(1200, rows / 10_000)).checked()
        said = json.loads(ran.output.splitlines()[-1])
        if sum(said["rows"].values()) != rows or (found and said["rows"] != found[OURS]["rows"]):
            raise CommandError(f"{tool} has {said['rows']} of {rows} rows")
        # Time of the machine is taken together with memory, from the last round.
        found[tool] = said
        return said["wall"]

    rivals: dict[str, Callable[[], float]] = {tool: partial(prepare, tool) for tool in tools}
    bench.progress(f"prepare_data: {suffix}")
    taken = in_turn(rivals, rounds=bench.rounds, failed=bench.failed)
    peers = [tool for tool in (*PEERS, SPARK) if tool in taken]
    size = (work / f"rows.{suffix}").stat().st_size / 1e9
    more = f"{rows:,} rows of 8 columns, {size:.1f} GB; the limit is Polars by hand, all in memory"
    missing = _spark_is_missing() if bench.with_peers else ""
    note = bench.note(ENVIRONMENT, more="; ".join(filter(None, [more, missing])))
    yield Record(
        name=f"prepare_data: {suffix}, time",
        unit="s",
        ours=taken[OURS],
        limit=taken[BY_HAND],
        peers={tool: taken[tool] for tool in peers},
        target=FACTOR * taken[BY_HAND],
        note=note,
    )
    yield Record(
        name=f"prepare_data: {suffix}, CPU time",
        unit="s",
        ours=found[OURS]["cpu"],
        limit=found[BY_HAND]["cpu"],
        peers={tool: found[tool]["cpu"] for tool in peers},
    )
    yield Record(
        name=f"prepare_data: {suffix}, peak memory",
        unit="MB",
        ours=found[OURS]["peak"] / 1e6,
        peers={tool: found[tool]["peak"] / 1e6 for tool in (BY_HAND, *peers)},
        target=PEAK_MIB * 1.048576,
    )


def _spark_is_missing() -> str:
    """Why there is no row for Spark; empty where there is one."""
    if not (SPARK_FOLDER / "pyspark").is_dir():
        return "spark is not installed (make .venvs/spark/.installed)"
    return "" if shutil.which("java", path="/usr/bin:/bin") else "spark needs Java, which is not installed"


def write_table(folder: Path, rows: int) -> None:
    """The same rows as rows.csv and rows.parquet: a key, a class, five kinds of values, and time as text."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as parquet

    random = np.random.default_rng(20261125)
    cities = pa.array(["Bern", "Zürich", "São Paulo", "Oslo", "New York"])
    start = np.datetime64("2026-01-01T00:00:00")
    schema = pa.schema(
        {
            **{"id": pa.int64(), "label": pa.int64(), "a": pa.float64(), "b": pa.float64(), "c": pa.float64()},
            **{"n": pa.int64(), "city": pa.string(), "when": pa.string()},
        }
    )
    with (
        pa_csv.CSVWriter(folder / "rows.csv", schema) as csv,
        parquet.ParquetWriter(folder / "rows.parquet", schema) as columns,
    ):
        for first in range(0, rows, 1 << 18):
            count = min(1 << 18, rows - first)
            sometimes = np.arange(count) % 50 == 0
            table = pa.table(
                [
                    np.arange(first, first + count) + 1_000_000,
                    random.integers(0, 5, count),
                    random.normal(0, 10, count).round(4),
                    random.random(count).round(6),
                    pa.array(random.exponential(3, count).round(3), mask=sometimes),
                    random.integers(0, 100_000, count),
                    cities.take(pa.array(random.integers(0, 5, count))),
                    (start + random.integers(0, 86_400 * 300, count).astype("timedelta64[s]")).astype(str),
                ],
                schema=schema,
            )
            csv.write_table(table)
            columns.write_table(table)
