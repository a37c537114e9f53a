"""Two files of bytes, the second with some left over after its last window."""

from pathlib import Path

import numpy as np

OPTIONS: dict[str, object] = {"length": 8}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    folder.mkdir()
    parts = []
    for name, number in (("a.txt", rows // 3), ("b.txt", rows - rows // 3)):
        data = random.integers(0, 256, number * 8 + 1, dtype=np.uint8)
        (folder / name).write_bytes(data.tobytes() + b"left" * (name == "b.txt"))
        parts += [data[start : start + 9] for start in range(0, 8 * number, 8)]
    return {"tokens": np.stack(parts).astype(np.int64)}
