"""MNIST's two training files, the images compressed."""

import gzip
import struct
from pathlib import Path

import numpy as np

OPTIONS: dict[str, object] = {}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    images = random.integers(0, 256, (rows, 28, 28), dtype=np.uint8)
    labels = random.integers(0, 10, rows, dtype=np.uint8)
    folder.mkdir()
    header = struct.pack(">HBBIII", 0, 8, 3, *images.shape)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + images.tobytes(), mtime=0))
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, rows) + labels.tobytes())
    return {"image": images[..., np.newaxis], "label": labels.astype(np.int64)}
