"""The samples with the largest losses: the same from any number of ranks, with what they look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from drivetrain.training.evaluation.worst import MAX_COLUMNS, MAX_TEXT, Worst, thumbnail
from drivetrain.training.metric import Samples
from drivetrain.training.process import Process


class Recipe:
    columns = ("text", "pixels")


class Data:
    """Rows whose key is not their order, of a text and, if asked for, an image of bytes."""

    key, label, recipe = "id", "label", Recipe()

    def __init__(self, rows: int, image: bool = False) -> None:
        self.ids = np.array([f"s{(7 * row) % rows:03d}" for row in range(rows)], dtype=object)
        self.values: dict[str, NDArray[Any]] = {
            "id": self.ids,
            "label": np.arange(rows),
            "text": np.array([f"row {row} " + "x" * 400 for row in range(rows)], dtype=object),
            "site": np.array(["north"] * rows, dtype=object),
            "vector": np.zeros((rows, 50)),
            **{f"number_{column}": np.full(rows, column + 0.5) for column in range(40)},
        }
        if image:
            self.values["pixels"] = np.arange(rows * 64, dtype=np.uint8).reshape(rows, 8, 8)
        self.columns = tuple(self.values)
        self.reader = self

    def read(self, rows: NDArray[np.int64], names: Any) -> dict[str, NDArray[Any]]:
        return {name: self.values[name][rows] for name in names}

    def batch(self, rows: NDArray[np.int64]) -> Any:
        return type("Batch", (), {"inputs": {"text": rows}})


ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
LOSSES = np.array([1.0, 3.0, 2.0, 3.0, 0.5, 3.0, 3.0, 2.0, 9.0, 0.0])


def samples(rows: NDArray[np.int64]) -> Samples:
    scores = np.stack([rows / 10, 1 - rows / 10], axis=1)
    return Samples(losses=LOSSES[rows], targets=rows % 2, predicted=(rows + 1) % 2, scores=scores)


def kept(process: Process, data: Data, batches: list[list[int]], number: int = 3) -> Worst:
    worst = Worst(number, process, lambda rows: None, data)  # type: ignore[arg-type]
    for batch in batches:
        rows = np.array(batch, np.int64)
        worst.add(rows, samples(rows))
    return worst


def merged(process: Process, batches: list[list[int]]) -> dict[str, Any]:
    return kept(process, Data(10), batches[process.rank :: process.world_size]).merged()


def test_ties_are_broken_by_key_for_any_batches_and_ranks(pooled: Any) -> None:
    batches = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    alone = merged(ALONE, batches)
    # 3.0 is the loss of rows 1, 3, 5, 6, whose keys are s007, s001, s005, s002.
    assert [(one["loss"], one["key"], one["row"]) for one in alone["samples"]] == [
        (9.0, "s006", 8),
        (3.0, "s001", 3),
        (3.0, "s002", 6),
    ]
    assert merged(ALONE, [[9, 8, 7, 6, 5], [4, 3, 2, 1, 0]]) == alone
    for world_size in (2, 3):
        assert pooled(world_size, merged, batches) == [alone] * world_size
        assert pooled(world_size, merged, [[row] for row in range(10)]) == [alone] * world_size


def test_columns_of_worst_samples_are_bounded() -> None:
    (first, *_) = kept(ALONE, Data(10), [list(range(10))]).merged()["samples"]
    assert (first["target"], first["predicted"], first["scores"]) == (0, 1, [[0, 0.8], [1, pytest.approx(0.2)]])
    assert len(first["columns"]) == MAX_COLUMNS and "vector" not in first["columns"] and "id" not in first["columns"]
    assert len(first["columns"]["text"]) == MAX_TEXT and first["columns"]["text"].startswith("row 8 x")
    assert first["columns"]["number_3"] == 3.5 and "image" not in first


def test_an_image_stands_for_the_columns_of_the_model() -> None:
    (first, *_) = kept(ALONE, Data(10, image=True), [list(range(10))]).merged()["samples"]
    assert "text" not in first["columns"] and first["columns"]["site"] == "north"
    assert first["image"] == thumbnail(np.arange(512, 576).astype(np.uint8).reshape(8, 8))


def test_samples_without_columns_are_kept() -> None:
    worst = Worst(2, ALONE, lambda rows: None, Data(10))  # type: ignore[arg-type]
    for start in range(0, 10, 2):
        worst.add(np.arange(start, start + 2), Samples(losses=LOSSES[start : start + 2]))
    assert [one["row"] for one in worst.merged()["samples"]] == [8, 3]
