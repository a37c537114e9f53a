"""Write what the loops learn from: `python data.py RECIPE FOLDER SEGMENTS`."""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
import small_transformer
from work import GLOBAL_BATCH, SEGMENT

DIGITS = Path(__file__).resolve().parents[4] / "pipelines" / "data" / "digits.csv.gz"


def digits(rows: int) -> dict[str, np.ndarray]:
    """The 1,797 images again and again."""
    with gzip.open(DIGITS, "rt", newline="") as lines:
        found = list(csv.DictReader(lines))
    names = [*(f"p{pixel}" for pixel in range(64)), "label"]
    again = np.arange(rows) % len(found)
    return {name: np.array([float(row[name]) for row in found]).astype(np.uint8)[again] for name in names}


if __name__ == "__main__":
    recipe, folder, segments = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    steps = segments * SEGMENT + 1  # the last segment is only closed by the request for one more step
    make = {"digits_cnn": digits, "small_transformer": small_transformer.columns}[recipe]
    np.savez(folder / "data.npz", **make(steps * GLOBAL_BATCH))
