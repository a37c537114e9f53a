"""Prepared data as prepare_data writes it, small, for tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_prepared(
    folder: Path, columns: Mapping[str, Any], *, label: str | None = "label", num_shards: int = 2
) -> Path:
    """Parquet shards with the given columns (arrays of one length) and their manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    shards = []
    for number, rows in enumerate(np.array_split(np.arange(table.num_rows), num_shards)):
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(table.take(pa.array(rows)), path)
        data = path.read_bytes()
        shards.append(
            {"file": path.name, "rows": len(rows), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        )
    manifest = {
        "format": 1,
        "rows": table.num_rows,
        "bytes": sum(shard["bytes"] for shard in shards),
        "key": "id",
        "label": label,
        "schema": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "shards": shards,
        "statistics": {},
        "content_hash": hashlib.sha256(json.dumps(shards).encode()).hexdigest(),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def digit_columns(num_rows: int, *, seed: int = 0) -> dict[str, Any]:
    """Columns like those of the digits: 64 pixels from 0 to 16, and a label that the pixels tell (a bright row)."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 5, size=(num_rows, 64))
    labels = np.arange(num_rows) % 8
    for row, label in enumerate(labels):
        pixels[row, label * 8 : label * 8 + 8] += 12
    return {
        "id": [f"row-{row}" for row in range(num_rows)],
        **{f"p{number}": pixels[:, number].astype(np.uint8) for number in range(64)},
        "label": labels.astype(np.int64),
    }
