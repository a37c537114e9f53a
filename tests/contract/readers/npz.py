"""An archive with arrays as they are; Fortran's order of values is numpy's affair."""

from pathlib import Path

import numpy as np

OPTIONS: dict[str, object] = {}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    columns = {
        "x": random.random((rows, 4, 2)),
        "turned": np.asfortranarray(random.random((rows, 5))),
        "y": (np.arange(rows) % 3).astype(np.uint8),
    }
    folder.mkdir()
    np.savez(folder / "data.npz", **columns)
    return columns
