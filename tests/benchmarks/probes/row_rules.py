"""prepare_data with row rules, and check_data after it, on a table of columns of four kinds.

    python -m tests.benchmarks.probes.row_rules write FOLDER ROWS COLUMNS     rows.parquet and, for small ones, rows.csv
    python -m tests.benchmarks.probes.row_rules prepare FOLDER SUFFIX RULES   RULES is the number of them, 0 for none
    python -m tests.benchmarks.probes.row_rules whole FOLDER RULES            prepare_data and check_data

The last two print {"cpu": seconds, "wall": seconds, "peak": bytes}.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tests.benchmarks.probes.prepare_data import SIDES, cpu_seconds, peak_bytes

PIECE, MOST_CSV = 1 << 18, 2_000_000
# What is said of a column of each kind; the data break a few of these.
KINDS: dict[str, tuple[dict[str, Any], ...]] = {
    "number": (
        {"nulls": {"then": "warn", "share": 0.05}},
        {"min": {"is": -60, "then": "quarantine"}},
        {"below": {"is": 60, "then": "quarantine"}},
    ),
    "count": ({"min": 0}, {"max": {"is": 99_990, "then": "quarantine"}}),
    "city": (
        {"values": ["Bern", "Zürich", "São Paulo", "Oslo", "New York"]},
        {"blanks": "warn"},
        {"max_length": 20},
    ),
    "code": ({"pattern": "[A-Z]{2}-[0-9]{1,6}"}, {"min_length": 4}),
}


def pieces(rows: int, columns: int) -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    random = np.random.default_rng(44)
    cities = pa.array(KINDS["city"][0]["values"])

    def column(kind: str, count: int) -> Any:
        if kind == "number":
            return pa.array(random.normal(0, 10, count).round(4), mask=random.random(count) < 0.02)
        if kind == "city":
            return cities.take(pa.array(random.integers(0, 5, count)))
        numbers = pa.array(random.integers(0, 100_000, count))
        joined = numbers.cast(pa.string())
        return numbers if kind == "count" else compute.call_function("binary_join_element_wise", ["CH", joined, "-"])

    for first in range(0, rows, PIECE):
        count = min(PIECE, rows - first)
        found = {"id": np.arange(first, first + count), "label": random.integers(0, 5, count)}
        yield pa.table({**found, **{name: column(name[:-2], count) for name in names(columns)}})


def names(columns: int) -> list[str]:
    return [f"{kind}{place:02d}" for place, kind in enumerate(islice(cycle(KINDS), columns - 2))]


def rules(columns: int, count: int) -> str:
    """So many rules as JSON, the first ones of each column before the second ones."""
    each = [(name, rule) for number in range(3) for name in names(columns) for rule in KINDS[name[:-2]][number:][:1]]
    found: dict[str, Any] = {"id": {"unique": "quarantine"}}
    for name, rule in each[: count - 1]:
        found.setdefault(name, {}).update(rule)
    return json.dumps({"columns": found})


def write(folder: Path, rows: int, columns: int) -> None:
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as parquet

    schema = next(pieces(1, columns)).schema
    with parquet.ParquetWriter(folder / "rows.parquet", schema) as file:
        for piece in pieces(rows, columns):
            file.write_table(piece)
    if rows <= MOST_CSV:
        with pa_csv.CSVWriter(folder / "rows.csv", schema) as file:
            for piece in pieces(rows, columns):
                file.write_table(piece)


def prepare(folder: Path, suffix: str, count: int) -> None:
    import pyarrow.parquet as parquet

    from drivetrain.components.prepare_data import prepare_data

    columns = len(parquet.read_schema(folder / "rows.parquet").names)
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    more: dict[str, Any] = {"rules": rules(columns, count), "quarantine": out / "quarantine"} if count else {}
    prepare_data(folder / f"rows.{suffix}", *(out / side for side in SIDES), key="id", label="label", **more)


def check(folder: Path) -> None:
    from drivetrain.components.check_data import check_data

    sides: dict[str, Any] = {side: folder / "out" / side for side in SIDES}
    registry = f"local:{folder / 'ledger.db'}"
    check_data(**sides, report=folder / "report", group="rows", registry=registry, night="2026-11-30")


def main(what: str, folder: str, *given: str) -> None:
    place = Path(folder)
    if what == "write":
        write(place, *map(int, given))
        return
    began, cpu = time.perf_counter(), cpu_seconds()
    prepare(place, "parquet" if what == "whole" else given[0], int(given[-1]))
    if what == "whole":
        check(place)
    print(json.dumps({"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - began, "peak": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
