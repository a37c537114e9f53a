from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.estimator import Options
from drivetrain.training.process import Process
from drivetrain.training.table_config import TableConfig, TableFolders
from drivetrain.training.table_data import find_task, open_data
from drivetrain.training.task import Task
from tests.fixtures.tables import columns, write_tables

PROCESS = Process(0, 1, 0, 1, None)


@pytest.mark.parametrize(
    ("asked", "labels", "task", "classes"),
    [
        ("auto", ["yes", "no"], Task("binary", 2, ("no", "yes")), ("no", "yes")),
        ("auto", ["a", "b", "c"], Task("multiclass", 3, ("a", "b", "c")), ("a", "b", "c")),
        ("multiclass", ["yes", "no"], Task("multiclass", 2, ("no", "yes")), ("no", "yes")),
        ("auto", [True, False], Task("binary", 2), (0, 1)),
        ("auto", [0, 1, 1], Task("binary", 2), (0, 1)),
        ("auto", [0.0, 1.0], Task("binary", 2), (0, 1)),
        ("auto", [0, 1, 2], Task("regression", 1), ()),
        ("multiclass", [0, 1, 2], Task("multiclass", 3), (0, 1, 2)),
        ("regression", [0, 1], Task("regression", 1), ()),
        ("auto", [0.5, 1.0], Task("regression", 1), ()),
    ],
)
def test_the_task_follows_the_label(asked: str, labels: list[Any], task: Task, classes: tuple[Any, ...]) -> None:
    values = np.array(labels, dtype=object if isinstance(labels[0], str) else None)
    assert find_task(asked, "label", values, "data") == (task, classes)


@pytest.mark.parametrize(
    ("asked", "labels", "said"),
    [
        ("binary", ["a", "b", "c"], "label 'label' of data has 3 classes ('a', 'b', 'c'); task=binary takes 2."),
        ("auto", ["a"], "has 1 classes ('a'); task=binary takes 2."),
        ("multiclass", [1, 2, 3], "holds 1, 2, 3; classes of task=multiclass are texts, or whole numbers from 0."),
        ("multiclass", [0, 1, 3], "holds 0, 1, 3; classes of"),
        ("binary", [1, 2], "holds 1, 2; classes of task=binary are texts, or whole numbers from 0. For other numbers"),
        (
            "multiclass",
            [f"n{number}" for number in range(1001)],
            "has 1,001 classes ('n0', 'n1', 'n10', 'n100' and 997",
        ),
        ("auto", [[1, 2], [3, 4]], "holds lists; allowed is a value a row."),
    ],
)
def test_labels_that_the_task_does_not_have_are_refused(asked: str, labels: list[Any], said: str) -> None:
    values = np.array(labels, dtype=object if isinstance(labels[0], str) else None)
    with pytest.raises(InputError) as refused:
        find_task(asked, "label", values, "data")
    assert said in str(refused.value)


def test_rows_have_weights_of_columns_and_of_classes(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, num_rows=40)
    config = TableConfig(weight_column="weight")
    options = Options(categories=("plan",), class_weights="balanced")
    folders = TableFolders(train=tables["train"], validation=tables["validation"], model=tmp_path / "model")
    data = open_data(config, folders, options, PROCESS)
    fit = data.fit(config, options, PROCESS, None, 0)
    given = columns(40, 0)
    stays = np.array(given["label"]) == "stays"
    assert fit.train.targets.tolist() == stays.tolist()
    by_class = np.where(stays, 20 / stays.sum(), 20 / (~stays).sum())
    assert fit.train.weights is not None and fit.validation is not None and fit.validation.weights is not None
    np.testing.assert_allclose(fit.train.weights, given["weight"] * by_class, rtol=1e-6)
    np.testing.assert_allclose(fit.validation.weights, columns(20, 1)["weight"], rtol=1e-6)
    assert data.features.names == ["age", "visits", "plan"], "weights are nothing to learn from"


def test_processes_share_the_rows_and_have_one_sample(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, num_rows=41)
    config, options = TableConfig(), Options(categories=("plan",))
    data = open_data(config, TableFolders(train=tables["train"], model=tmp_path), options, PROCESS)
    fits = [data.fit(config, options, Process(rank, 3, 0, 1, None), None, 0) for rank in range(3)]
    whole = data.fit(config, options, PROCESS, None, 0)
    assert whole.sample is None
    joined = np.concatenate([fit.train.matrix for fit in fits])
    np.testing.assert_array_equal(joined, whole.train.matrix)
    for fit in fits:
        assert fit.sample is not None
        np.testing.assert_array_equal(fit.sample.matrix, whole.train.matrix)


def test_fewer_rows_than_processes_are_refused(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, num_rows=8)
    config, options = TableConfig(), Options(categories=("plan",))
    data = open_data(config, TableFolders(train=tables["train"], model=tmp_path), options, PROCESS)
    with pytest.raises(InputError, match=r"has 8 rows for 9 processes\. Take fewer processes."):
        data.fit(config, options, Process(0, 9, 0, 1, None), None, 0)


def test_a_whole_number_that_training_never_lacked_must_be_there(tmp_path: Path) -> None:
    def gaps(given: dict[str, Any]) -> list[int | None]:
        return [None if row == 3 else int(visits) for row, visits in enumerate(given["visits"])]

    good, bad = write_tables(tmp_path / "good", num_rows=20), write_tables(tmp_path / "bad", num_rows=20, visits=gaps)
    folders = TableFolders(train=good["train"], validation=bad["validation"], model=tmp_path)
    with pytest.raises(InputError, match=r"column 'visits' of shard .* has 1 empty values"):
        open_data(TableConfig(), folders, Options(categories=("plan",)), PROCESS)
