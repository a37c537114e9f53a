"""Reviews of words that each occur with a frequency of their own, so that the vocabulary is known."""

from pathlib import Path

import numpy as np

OPTIONS: dict[str, object] = {"length": 5}
WORDS = ("the", "film", "was", "n't")


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    tokens = np.zeros((rows, 5), dtype=np.int64)
    labels = np.sort(np.arange(rows) % 2).astype(np.int64)
    for row, label in enumerate(labels):
        inside = folder / ("neg", "pos")[label]
        inside.mkdir(parents=True, exist_ok=True)
        # Each review has the first words, up to one of them; so the first is the most frequent.
        number = 1 + row % 3
        (inside / f"{row:03d}.txt").write_text(" ".join(WORDS[:number]) + ".<br />", encoding="utf-8")
        tokens[row, :number] = np.arange(number) + 2
    return {"tokens": tokens, "length": (tokens > 0).sum(axis=1), "label": labels}
