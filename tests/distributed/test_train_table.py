"""Trees of several processes are those of one."""

from __future__ import annotations

import importlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.process import Process
from drivetrain.training.table_config import TableConfig, TableFolders
from drivetrain.training_scripts import train_table
from drivetrain.training_scripts.estimators import xgboost
from tests.fixtures.tables import columns, write_tables

OPTIONS = {"categories": ["plan"], "max_depth": 4, "learning_rate": 0.2}
SAVING = {"save_every": 2}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    importlib.import_module("xgboost")  # once for all ranks, which are forked
    return write_tables(tmp_path_factory.mktemp("tables"), num_rows=1001)


def fit(process: Process, tables: dict[str, Path], folder: Path, options: Any, given: Any) -> None:
    places = TableFolders(
        train=tables["train"],
        validation=tables["validation"],
        model=folder / "model",
        checkpoints=folder / "checkpoints",
    )
    config = TableConfig(
        **{"estimator_options": json.dumps(options), "threads": 1, "rounds": 12, "weight_column": "weight", **given}
    )
    train_table.train(config, places, process)


def splits(model: Path) -> list[Any]:
    """The column and the value of each split, tree by tree."""

    def of_node(node: dict[str, Any]) -> Any:
        if "children" not in node:
            return None
        return node["split"], str(node["split_condition"]), *map(of_node, node["children"])

    return [of_node(json.loads(tree)) for tree in xgboost.load(model).booster.get_dump(dump_format="json")]


def scores(model: Path) -> Any:
    given = {name: np.array(values) for name, values in columns(300, 7).items()}
    given["age"] = given["age"].astype(float)
    return xgboost.predict(xgboost.load(model), given)["score"]


@pytest.mark.slow_cases("3-drawn")
@pytest.mark.parametrize("drawn", [{}, {"colsample_bytree": 0.5}], ids=["whole", "drawn"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_several_processes_grow_the_trees_of_one(
    world_size: int, drawn: dict[str, Any], forked: Any, tables: dict[str, Path], tmp_path: Path
) -> None:
    for size in (1, world_size):
        forked(size, fit, tables, tmp_path / str(size), {**OPTIONS, **drawn}, {"early_stopping": 4})
    one, several = (tmp_path / str(size) / "model" for size in (1, world_size))
    assert splits(one) == splits(several)
    assert np.abs(scores(one) - scores(several)).max() < 1e-6


def killed(process: Process, tables: dict[str, Path], folder: Path) -> tuple[str, bool]:
    """Train, but rank 1 dies after its fifth round; gives what rank 0 makes of it."""
    rounds = iter(range(1, 100))

    def beat() -> None:
        if next(rounds) == 5 and process.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    train_table.beat = beat
    try:
        fit(process, tables, folder, OPTIONS, SAVING)
    except Exception as error:
        return str(error), is_lost_peer(error)
    raise AssertionError("nothing was raised")


def test_a_lost_process_is_recognised_and_the_training_goes_on(
    forked: Any, tables: dict[str, Path], tmp_path: Path
) -> None:
    (said, recognised), _ = forked(2, killed, tables, tmp_path / "killed", may_die=(1,))
    assert recognised, said
    forked(2, fit, tables, tmp_path / "killed", OPTIONS, SAVING)
    forked(2, fit, tables, tmp_path / "whole", OPTIONS, SAVING)
    models = [(tmp_path / name / "model" / "model.ubj").read_bytes() for name in ("killed", "whole")]
    assert models[0] == models[1]


def refused(process: Process, tables: dict[str, Path], folder: Path) -> str:
    try:
        fit(process, tables, folder, {**OPTIONS, "monotone": {"plan": 1}}, {})
    except ValueError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def test_bad_input_ends_all_processes_with_one_line(forked: Any, tables: dict[str, Path], tmp_path: Path) -> None:
    answers = forked(2, refused, tables, tmp_path)
    assert answers[0] == answers[1] and "is a category" in answers[0]
