"""Prepared data that comes through a window instead of being held."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.input_pipeline.cursor import StreamOrder
from drivetrain.training.input_pipeline.prepared import PreparedData
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
NUM_ROWS, GROUP = 600, 25


@pytest.fixture
def folder(prepared_data: ModuleType, tmp_path: Path) -> Path:
    """Four shards of 150 rows in row groups of 25."""
    columns = {
        "x": np.arange(NUM_ROWS),
        "name": [f"row {n}" for n in range(NUM_ROWS)],
        "label": np.arange(NUM_ROWS) % 3,
    }
    folder = prepared_data.write_prepared(tmp_path / "data", columns, num_shards=4)
    manifest = json.loads((folder / "manifest.json").read_text())
    for shard in manifest["shards"]:
        path = folder / shard["file"]
        parquet.write_table(parquet.read_table(path), path, row_group_size=GROUP)
        shard["bytes"], shard["sha256"] = (
            path.stat().st_size,
            prepared_data.hashlib.sha256(path.read_bytes()).hexdigest(),
        )
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def opened(folder: Path, window: int) -> Reader:
    reader = load_reader("prepared", folder, {"shuffle_window": window}, ALONE)
    reader.open(["x", "name", "label"])
    return reader


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the row groups that were decoded, one entry each."""
    rows: list[int] = []
    real = PreparedData.row_groups

    def counting(self: PreparedData, *given: Any) -> Any:
        for piece in real(self, *given):
            rows.append(piece.num_rows)
            yield piece

    monkeypatch.setattr(PreparedData, "row_groups", counting)
    return rows


@pytest.mark.parametrize("window", [10, 100, 10_000])
def test_the_rows_are_those_that_are_held_otherwise(folder: Path, window: int) -> None:
    held, streamed = opened(folder, 0), opened(folder, window)
    assert not held.streaming and streamed.streaming
    assert streamed.shards == [150] * 4
    for rows in (np.array([599, 0, 300, 301, 0]), slice(140, 160), np.zeros(0, dtype=np.int64)):
        expected, found = held.read(rows, ["x", "name"]), streamed.read(rows, ["x", "name"])
        assert found["x"].tolist() == expected["x"].tolist() and found["x"].dtype == expected["x"].dtype
        assert found["name"].tolist() == expected["name"].tolist()


def test_each_row_group_is_decoded_about_once_an_epoch_and_few_are_held(folder: Path, decoded: list[int]) -> None:
    window = 100
    reader = opened(folder, window)
    order = StreamOrder(reader.shards, window, 32, seed=1)
    decoded.clear()
    seen: list[int] = []
    while len(seen) < NUM_ROWS:
        seen += reader.read(order.batch(len(seen)), ["x"])["x"].tolist()
        assert sum(map(len, reader._rows._held.values())) <= window + 2 * GROUP  # type: ignore[attr-defined]
    assert sorted(seen) == list(range(NUM_ROWS))
    # Shards of 150 rows and windows of 100: a window may begin inside a row group that the one before ended in.
    assert NUM_ROWS / GROUP <= len(decoded) <= NUM_ROWS / GROUP + NUM_ROWS / window


def test_a_seek_decodes_no_more_than_a_window(folder: Path, decoded: list[int]) -> None:
    window = 100
    reader = opened(folder, window)
    decoded.clear()
    order = StreamOrder(reader.shards, window, 32, seed=1)
    reader.read(order.batch(320), ["x"])
    assert sum(decoded) <= window + 2 * GROUP


def test_lists_that_change_their_length(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = {"x": pa.array([[1, 2], [3, 4], [5, 6, 7], [8, 9, 1]]), "label": [0, 1, 0, 1]}
    folder = prepared_data.write_prepared(tmp_path / "data", columns)
    for window in (0, 2):
        reader = load_reader("prepared", folder, {"shuffle_window": window}, ALONE)
        with pytest.raises(
            InputError, match=r"column 'x' of shard .*part-00001\.parquet has lists of 3 values; those before have 2"
        ):
            reader.open(["x"])
            reader.read(slice(0, 4), ["x"])


@pytest.mark.parametrize("values", [[[1], [2, 3]], [[1, None], [2, 3]]])
def test_lists_of_different_lengths(prepared_data: ModuleType, tmp_path: Path, values: list[Any]) -> None:
    columns = {"x": pa.array([[1, 2], *values]), "label": [0, 1, 0]}
    folder = prepared_data.write_prepared(tmp_path / "data", columns, num_shards=1)
    with pytest.raises(InputError, match="has lists with empty values or of different lengths"):
        load_reader("prepared", folder, {}, ALONE).open(["x"])
