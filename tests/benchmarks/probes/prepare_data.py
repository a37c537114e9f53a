"""One tool prepares a table: reads, hashes keys, refuses repeated ones, splits, writes Parquet, counts, checksums.

    python prepare_data.py TOOL raw.csv out/

Prints {"wall": seconds, "cpu": seconds, "peak": bytes, "rows": {"train": ...}} of the work, without imports.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

VALIDATION, TEST = 10, 10
BELOW_TEST, BELOW_EITHER = (TEST << 64) // 100, ((TEST + VALIDATION) << 64) // 100
SIDES = ("train", "validation", "test")


def hashes(keys: Iterable[bytes]) -> list[bytes]:
    salted = hashlib.blake2b(b"\0", digest_size=8)
    found: list[bytes] = []
    for key in keys:
        digest = salted.copy()
        digest.update(key)
        found.append(digest.digest())
    return found


def checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def drivetrain(raw: Path, out: Path) -> dict[str, int]:
    from drivetrain.components.prepare_data import prepare_data

    # What the others do: none of them compares rows across the sides.
    prepare_data(raw, *(out / side for side in SIDES), key="id", label="label", on_leakage="ignore")
    return {side: json.loads((out / side / "manifest.json").read_bytes())["rows"] for side in SIDES}


def polars(raw: Path, out: Path) -> dict[str, int]:
    import polars as pl

    def hashed(keys: pl.Series) -> pl.Series:
        found = pl.Series(hashes(keys.cast(pl.String).cast(pl.Binary)), dtype=pl.Binary)
        return found.bin.reinterpret(dtype=pl.UInt64, endianness="little")

    scan = pl.scan_csv if raw.suffix == ".csv" else pl.scan_parquet
    key = pl.col("id").map_batches(hashed, return_dtype=pl.UInt64, is_elementwise=True)
    table = scan(raw).with_columns(key.alias("hash")).collect(engine="streaming")
    if table["hash"].is_duplicated().any():
        raise ValueError("a key occurs twice")
    side = pl.col("hash")
    rows = {}
    for name, chosen in (
        ("test", side < BELOW_TEST),
        ("validation", (side >= BELOW_TEST) & (side < BELOW_EITHER)),
        ("train", side >= BELOW_EITHER),
    ):
        part = table.filter(chosen).drop("hash")
        part.write_parquet(out / f"{name}.parquet", compression="zstd", compression_level=1, row_group_size=1 << 16)
        part.describe(percentiles=())
        part["label"].value_counts()
        checksum(out / f"{name}.parquet")
        rows[name] = part.height
    return rows


def pandas(raw: Path, out: Path) -> dict[str, int]:
    import numpy as np
    import pandas as pd

    table = pd.read_csv(raw) if raw.suffix == ".csv" else pd.read_parquet(raw)
    found = np.frombuffer(b"".join(hashes(str(key).encode() for key in table["id"])), "<u8")
    if len(np.unique(found)) < len(found):
        raise ValueError("a key occurs twice")
    rows = {}
    for name, chosen in (
        ("test", found < BELOW_TEST),
        ("validation", (found >= BELOW_TEST) & (found < BELOW_EITHER)),
        ("train", found >= BELOW_EITHER),
    ):
        part = table[chosen]
        part.to_parquet(out / f"{name}.parquet", compression="zstd", compression_level=1, row_group_size=1 << 16)
        part.agg(["min", "max"])
        part.select_dtypes("number").agg(["mean", "std"])
        part["label"].value_counts()
        checksum(out / f"{name}.parquet")
        rows[name] = len(part)
    return rows


def duckdb(raw: Path, out: Path) -> dict[str, int]:
    import duckdb
    import pyarrow as pa

    def hashed(keys: Any) -> Any:
        text = keys.cast(pa.string()).cast(pa.binary())
        return pa.array([int.from_bytes(digest, "little") for digest in hashes(text.to_pylist())], pa.uint64())

    base = duckdb.connect()
    base.create_function("hashed", hashed, ["BIGINT"], "UBIGINT", type="arrow")
    read = f"read_csv('{raw}')" if raw.suffix == ".csv" else f"read_parquet('{raw}')"
    base.execute(f"CREATE TABLE rows AS SELECT *, hashed(id) AS hash FROM {read}")
    if base.execute("SELECT count(*) - count(DISTINCT hash) FROM rows").fetchall() != [(0,)]:
        raise ValueError("a key occurs twice")
    rows = {}
    for name, chosen in (
        ("test", f"hash < {BELOW_TEST}"),
        ("validation", f"hash >= {BELOW_TEST} AND hash < {BELOW_EITHER}"),
        ("train", f"hash >= {BELOW_EITHER}"),
    ):
        part = f"SELECT * EXCLUDE hash FROM rows WHERE {chosen}"
        options = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 65536"
        base.execute(f"COPY ({part}) TO '{out / name}.parquet' ({options})")
        base.execute(f"SUMMARIZE {part}").fetchall()
        base.execute(f"SELECT label, count(*) FROM ({part}) GROUP BY label").fetchall()
        checksum(out / f"{name}.parquet")
        rows[name] = base.execute(f"SELECT count(*) FROM ({part})").fetchall()[0][0]
    return rows


TOOLS: dict[str, Callable[[Path, Path], dict[str, int]]] = {
    "drivetrain": drivetrain,
    "polars": polars,
    "pandas": pandas,
    "duckdb": duckdb,
}

IMPORTS = {
    "drivetrain": (
        "numpy",
        *(f"drivetrain.{name}" for name in ("components.prepare_data", "data.checks", "data.reading", "data.shards")),
    )
}


def main(tool: str, raw: str, out: str) -> None:
    for module in IMPORTS.get(tool, (tool,)):
        importlib.import_module(module)
    if tool == "drivetrain":
        from drivetrain.data.arrow import arrow

        arrow()
    began, cpu = time.perf_counter(), time.process_time()
    rows = TOOLS[tool](Path(raw), Path(out))
    found = {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "rows": rows}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**found, "peak": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
