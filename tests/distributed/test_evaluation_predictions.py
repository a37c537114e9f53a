"""Predictions in the order of the data: the same bytes from any number of ranks, whatever the batches were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from drivetrain.training import outputs
from drivetrain.training.evaluation import predictions
from drivetrain.training.evaluation.predictions import Predictions
from drivetrain.training.metric import Samples
from drivetrain.training.process import Process
from drivetrain.training.task import Task

MULTICLASS = Task("multiclass", 3, ("ant", "bee", "wasp"))


def samples(task: Task, rows: slice) -> Samples:
    """What a model might have said of the rows; each row's values depend on the row alone."""
    number = np.arange(rows.start, rows.stop)
    columns = {"multiclass": 3, "multilabel": 2, "regression": 2}.get(task.kind, 1)
    scores = ((number[:, None] * 7 + np.arange(columns)) % 11) / 11
    shaped = scores[:, 0] if task.kind == "binary" else scores
    if task.kind == "multilabel":
        return Samples(targets=(scores > 0.3) * 1, scores=scores, predicted=(scores >= 0.5) * 1)
    if task.kind == "regression":
        return Samples(losses=number / 3, targets=scores, predicted=scores + 1)
    return Samples(losses=number / 3, targets=number % 3, scores=shaped, predicted=scores.argmax(axis=1))


def write(process: Process, folder: Path, task: Task, num_rows: int, batch_size: int, keys: str) -> None:
    with Predictions(folder if process.is_main else None, process, task) as kept:
        starts = range(0, num_rows, batch_size)
        for start in starts[process.rank :: process.world_size]:
            rows = slice(start, min(start + batch_size, num_rows))
            names = np.array([f"row-{row}" for row in range(rows.start, rows.stop)], dtype=object)
            kept.add(start, samples(task, rows), names if keys else None)
        kept.write()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow_cases("50", "1", "7")
@pytest.mark.parametrize("num_rows", [1, 2, 7, 50])
def test_the_same_bytes_from_any_number_of_ranks(
    num_rows: int, forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "ROW_GROUP_ROWS", 8)
    monkeypatch.setattr(predictions, "ROWS_PER_FILE", 20)
    forked(1, write, tmp_path / "alone", MULTICLASS, num_rows, 4, "id")
    expected = contents(tmp_path / "alone")
    assert sorted(expected) == [f"predictions/part-{number:05d}.parquet" for number in range(-(-num_rows // 20))]
    for world_size, batch_size in ((2, 4), (3, 4), (2, 5), (3, 64)):
        folder = tmp_path / f"{world_size}-{batch_size}"
        forked(world_size, write, folder, MULTICLASS, num_rows, batch_size, "id")
        assert contents(folder) == expected


def test_rows_are_in_order_with_their_keys(forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "ROW_GROUP_ROWS", 8)
    monkeypatch.setattr(predictions, "ROWS_PER_FILE", 20)
    forked(2, write, tmp_path, MULTICLASS, 50, 3, "id")
    table = parquet.read_table(tmp_path / "predictions")
    assert table.column_names == ["row", "key", "target", "predicted", "score_ant", "score_bee", "score_wasp", "loss"]
    assert table["row"].to_pylist() == list(range(50))
    assert table["key"].to_pylist() == [f"row-{row}" for row in range(50)]
    expected = samples(MULTICLASS, slice(0, 50))
    assert expected.scores is not None and expected.predicted is not None and expected.losses is not None
    assert table["score_bee"].to_pylist() == expected.scores[:, 1].tolist()
    assert table["predicted"].to_pylist() == expected.predicted.tolist()
    assert table["loss"].to_pylist() == expected.losses.tolist()
    groups = parquet.ParquetFile(tmp_path / "predictions/part-00000.parquet").metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [8, 8, 4]


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        (Task("binary", 2), {"target": "int64", "predicted": "int64", "score": "double"}),
        (
            Task("multilabel", 2),
            {
                **{"target": "fixed_size_list<item: int64>[2]", "predicted": "fixed_size_list<item: int64>[2]"},
                **{"score_0": "double", "score_1": "double"},
            },
        ),
        (
            Task("regression", 2),
            {"target": "fixed_size_list<item: double>[2]", "predicted": "fixed_size_list<item: double>[2]"},
        ),
    ],
    ids=lambda given: given.kind if isinstance(given, Task) else "",
)
def test_columns_of_other_tasks(task: Task, columns: dict[str, str], forked: Any, tmp_path: Path) -> None:
    forked(2, write, tmp_path, task, 9, 2, "")
    schema = parquet.read_schema(tmp_path / "predictions/part-00000.parquet")
    found = {field.name: str(field.type).replace("element", "item") for field in schema}
    assert found == {"row": "int64", **columns, **({} if task.kind == "multilabel" else {"loss": "double"})}


def test_scores_of_very_many_classes_are_lists(forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_SCORE_COLUMNS", 2)
    forked(1, write, tmp_path, MULTICLASS, 3, 2, "")
    (path,) = (tmp_path / "predictions").iterdir()
    scores = parquet.read_table(path)["score"].to_pylist()
    expected = samples(MULTICLASS, slice(0, 3)).scores
    assert expected is not None and scores == expected.tolist()
