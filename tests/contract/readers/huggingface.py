"""Pictures, classes and numbers as `datasets` 5.2.0 saves them: what its own `save_to_disk` wrote was compared."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

OPTIONS: dict[str, object] = {"size": 12}
_FEATURES: dict[str, Any] = {
    "image": {"_type": "Image"},
    "label": {"names": ["ant", "bee", "cat"], "_type": "ClassLabel"},
    "weight": {"dtype": "float32", "_type": "Value"},
    "place": {"feature": {"dtype": "float64", "_type": "Value"}, "length": 2, "_type": "List"},
    "grid": {"shape": [3, 4], "dtype": "uint8", "_type": "Array2D"},
    "name": {"dtype": "string", "_type": "Value"},
}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    images = random.integers(0, 256, (rows, 12, 12, 3), dtype=np.uint8)
    columns: dict[str, np.ndarray] = {
        "image": images,
        "label": np.arange(rows) % 3,
        "weight": random.random(rows, dtype=np.float32),
        "place": random.random((rows, 2)),
        "grid": random.integers(0, 9, (rows, 3, 4), dtype=np.uint8),
        "name": np.array([f"row {row}" for row in range(rows)], dtype=object),
    }
    arrays = {
        "image": pa.array([{"bytes": png(image), "path": None} for image in images], IMAGE),
        "label": pa.array(columns["label"]),
        "weight": pa.array(columns["weight"]),
        "place": pa.array(columns["place"].tolist(), pa.list_(pa.float64(), 2)),
        "grid": pa.array(columns["grid"].tolist(), pa.list_(pa.list_(pa.uint8()))),
        "name": pa.array(columns["name"].tolist()),
    }
    save(folder, pa.table(arrays), _FEATURES)
    return columns


IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def png(values: np.ndarray) -> bytes:
    data = io.BytesIO()
    Image.fromarray(values).save(data, "PNG")
    return data.getvalue()


def save(folder: Path, table: pa.Table, features: Mapping[str, Any], *, files: int = 2) -> Path:
    """As `save_to_disk(num_shards=files)`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{number:05d}-of-{files:05d}.arrow" for number in range(files)]
    ends = np.linspace(0, len(table), files + 1).astype(int)
    for name, first, end in zip(names, ends, ends[1:], strict=False):
        with pa.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(table.slice(first, end - first), max_chunksize=5)
    info = {"citation": "", "description": "", "features": dict(features), "homepage": "", "license": ""}
    state = {
        **{"_data_files": [{"filename": name} for name in names], "_fingerprint": "69675ec93c41bb9b"},
        **{"_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False},
        "_split": None,
    }
    (folder / "dataset_info.json").write_text(json.dumps(info, indent=2), encoding="utf-8")
    (folder / "state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    return folder
