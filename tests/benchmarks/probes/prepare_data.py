"""One tool prepares a table: reads, hashes keys, refuses repeated ones, splits, writes Parquet, counts, checksums.

    python prepare_data.py TOOL raw.csv out/

Prints {"wall": seconds, "cpu": seconds, "peak": bytes, "rows": {"train": ...}} of the work, without imports and without
the start of a session of Spark. CPU time and memory are those of the process and of all that it started.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import struct
import sys
import tempfile
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


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    settings = {
        "spark.master": "local[*]",
        "spark.driver.memory": f"{max(1024, (memory >> 20) // 4)}m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.parquet.compression.codec": "zstd",
        "parquet.compression.codec.zstd.level": "1",
        "spark.local.dir": tempfile.gettempdir(),
    }
    builder = SparkSession.builder.appName("prepare_data")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.range(1).count()
    return session


def spark(raw: Path, out: Path) -> dict[str, int]:
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import functions, types

    session = spark_session()
    session.sparkContext.addPyFile(__file__)
    read = session.read.csv(str(raw), header=True, inferSchema=True) if raw.suffix == ".csv" else None
    table = session.read.parquet(str(raw)) if read is None else read

    def hashed(batches: Iterable[Any]) -> Iterable[Any]:
        for batch in batches:
            text = batch.column("id").cast(pa.string()).cast(pa.binary()).to_pylist()
            digests = b"".join(hashes(text))
            # Spark has no unsigned integers: with the first bit turned over they are in the same order.
            signed = pa.array([each[0] - (1 << 63) for each in struct.iter_unpack("<Q", digests)], pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, signed], names=[*batch.schema.names, "hash"])

    schema = types.StructType([*table.schema, types.StructField("hash", types.LongType())])
    table = table.mapInArrow(hashed, schema).persist(StorageLevel.DISK_ONLY)
    if table.count() != table.select("hash").distinct().count():
        raise ValueError("a key occurs twice")
    side, first = functions.col("hash"), 1 << 63
    rows = {}
    for name, chosen in (
        ("test", side < BELOW_TEST - first),
        ("validation", (side >= BELOW_TEST - first) & (side < BELOW_EITHER - first)),
        ("train", side >= BELOW_EITHER - first),
    ):
        part = table.where(chosen).drop("hash")
        part.write.parquet(str(out / name))
        part.summary("count", "mean", "stddev", "min", "max").collect()
        part.groupBy("label").count().collect()
        for file in (out / name).glob("*.parquet"):
            checksum(file)
        rows[name] = part.count()
    return rows


TOOLS: dict[str, Callable[[Path, Path], dict[str, int]]] = {
    "drivetrain": drivetrain,
    "polars": polars,
    "pandas": pandas,
    "duckdb": duckdb,
    "spark": spark,
}

IMPORTS = {
    "drivetrain": (
        "numpy",
        *(f"drivetrain.{name}" for name in ("components.prepare_data", "data.checks", "data.reading", "data.shards")),
    ),
    "spark": ("pyarrow", "pyspark.sql"),
}


def cpu_seconds() -> float:
    """User and system time of this process and of those that it started."""
    ticks = 0
    for process in started():
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_bytes() -> int:
    """The sum of the most memory that this process and those that it started had, each at its own time."""
    peaks = (Path(f"/proc/{process}/status").read_text(encoding="utf-8") for process in started())
    return sum(int(text.partition("VmHWM:")[2].split()[0]) for text in peaks if "VmHWM:" in text) * 1024


def started() -> list[int]:
    """This process and its descendants."""
    found = [os.getpid()]
    for process in found:
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
                found += map(int, (task / "children").read_text(encoding="utf-8").split())
    return found


def main(tool: str, raw: str, out: str) -> None:
    for module in IMPORTS.get(tool, (tool,)):
        importlib.import_module(module)
    if tool == "drivetrain":
        from drivetrain.data.arrow import arrow

        arrow()
    if tool == "spark":
        spark_session()
    began, cpu = time.perf_counter(), cpu_seconds()
    rows = TOOLS[tool](Path(raw), Path(out))
    found = {"wall": time.perf_counter() - began, "cpu": cpu_seconds() - cpu, "rows": rows}
    print(json.dumps({**found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
