"""Two Parquet shards of prepared data."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.distributed.prepared_data import write_prepared

OPTIONS: dict[str, object] = {}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    columns = {
        "a": random.integers(0, 255, rows).astype(np.uint8),
        "b": random.integers(0, 255, rows).astype(np.uint8),
        "weight": random.random(rows),
        "name": np.array([f"row {row}" for row in range(rows)], dtype=object),
        "embedding": random.random((rows, 3)).astype(np.float32),
        "listed": random.integers(0, 9, (rows, 2)),
        "label": np.arange(rows) % 3,
    }
    lists = {name: columns[name].tolist() for name in ("embedding", "listed")}
    arrow = {"embedding": pa.array(lists["embedding"], pa.list_(pa.float32(), 3)), "listed": pa.array(lists["listed"])}
    write_prepared(folder, columns | arrow)
    return columns
