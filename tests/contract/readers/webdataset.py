"""Samples of a picture and a class in two tars, beside members that are not read."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np

from tests.contract.readers.huggingface import png

OPTIONS: dict[str, object] = {"size": 12}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    images = random.integers(0, 256, (rows, 12, 12, 3), dtype=np.uint8)
    labels = np.arange(rows, dtype=np.int64) % 3
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(rows), 2)):
        samples = [
            (f"set/{row:03d}", {"png": png(images[row]), "cls": b"%d\n" % labels[row], "json": b"{}"}) for row in part
        ]
        tar(folder / f"train-{number:04d}.tar", samples)
    return {"image": images, "label": labels}


def tar(path: Path, samples: list[tuple[str, dict[str, bytes]]]) -> None:
    with tarfile.open(path, "w") as archive:
        for key, members in samples:
            for ending, content in members.items():
                info = tarfile.TarInfo(f"{key}.{ending}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
