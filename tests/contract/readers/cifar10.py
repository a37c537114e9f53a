"""CIFAR-10's five training files, small."""

from pathlib import Path

import numpy as np

OPTIONS: dict[str, object] = {}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    planes = random.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, rows, dtype=np.uint8)
    records = np.concatenate((labels[:, np.newaxis], planes.reshape(rows, -1)), axis=1)
    folder.mkdir()
    for number, part in enumerate(np.array_split(records, 5), start=1):
        (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())
    return {"image": planes.transpose(0, 2, 3, 1), "label": labels.astype(np.int64)}
