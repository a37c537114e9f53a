"""Trainings under TensorFlow's strategies: what several replicas come to is what one comes to, over uneven batches,
also after a restart on another number of processes; evaluation's digits do not depend on the number of processes, nor
on the framework."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.tensorflow.trainings import ADAMW, Work, run

pytestmark = pytest.mark.tensorflow

TWO: dict[str, Any] = {"strategy": "tf_multi_worker", "strategy_options": '{"communication": "ring"}'}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    yield Work(tmp_path_factory.mktemp("tensorflow"))


FP64 = {"precision": "fp64"}
TREES = {"recipe": "tests.tensorflow.tree_recipe"}
SEVERAL = {"recipe": "tests.tensorflow.two_optimizers", "recipe_options": "{}", "schedule": "sgdr"}


@pytest.fixture(scope="module")
def alone(work: Work) -> Any:
    """One process: whole trainings, one that is cut off in its second epoch and goes on, an evaluation of one."""
    runs = [
        ("whole", {}),
        ("adamw", {"recipe_options": ADAMW}),
        ("fp64", FP64),
        ("cut", {"max_steps": 6}),
        ("resumed", {"max_steps": 6}),
        ("resumed", {}),
        ("trees", TREES),
        ("several_cut", SEVERAL | {"max_steps": 6}),
        ("several_cut", SEVERAL),
        ("several", SEVERAL),
    ]
    model, tree = str(work.folder / "whole/model"), str(work.folder / "trees/model")
    return run(work.given(*runs, evaluate=[model, tree], predict=[model, tree], exports=[tree]))


@pytest.fixture(scope="module")
def pair(work: Work, alone: Any) -> Any:
    """The same on two processes, which also go on where one was cut off in mid-epoch, from the same store."""
    shutil.copytree(work.folder / "cut", work.folder / "moved")
    model = shutil.copytree(work.folder / "whole/model", work.folder / "again/model")
    tree = str(shutil.copytree(work.folder / "trees/model", work.folder / "trees_again/model"))
    changes = {
        "two": {},
        "two_trees": TREES,
        "two_several": SEVERAL,
        "two_adamw": {"recipe_options": ADAMW},
        "two_fp64": FP64,
        "moved": {},
    }
    runs = [(name, TWO | change) for name, change in changes.items()]
    return run(work.given(*runs, evaluate=[str(model), tree]), processes=2)


def test_it_learns_and_its_step_is_traced_once(work: Work, alone: Any) -> None:
    losses = [row["validation_loss"] for row in work.history("whole")]
    assert losses[-1] < 0.8 * losses[0]
    assert [noted["traces"] for noted in alone["runs"]] == [1] * 10


def test_it_goes_on_where_it_was_bit_by_bit(work: Work, alone: Any) -> None:
    assert work.distance("whole", "resumed") == 0.0
    # (Where it was cut off it was validated, too.)
    assert work.history("whole") == [row for row in work.history("resumed") if row["step"] != 6]


def test_replicas_of_one_process_come_to_what_one_comes_to(work: Work, alone: Any) -> None:
    """Over batches that do not fill both, with clipping."""
    runs = [
        (f"{strategy}_{name}", {"strategy": f"tf_{strategy}", "strategy_options": '{"cpus": 2}', **change})
        for strategy in ("mirrored", "central_storage")
        for name, change in (("whole", {}), ("adamw", {"recipe_options": ADAMW}), ("fp64", FP64))
    ]
    runs.append(("mirrored_trees", runs[0][1] | TREES | {"accumulation": 2}))
    found = run(work.given(*runs))
    for strategy in ("mirrored", "central_storage"):
        assert work.distance("whole", f"{strategy}_whole") < 1e-6
        assert work.distance("adamw", f"{strategy}_adamw") < 2e-5
        assert work.distance("fp64", f"{strategy}_fp64") < 1e-10
    assert work.distance("whole", "mirrored_trees") < 1e-6
    assert [noted["traces"] for noted in found["runs"]] == [1] * len(runs)


def test_two_processes_come_to_what_one_comes_to(work: Work, pair: Any) -> None:
    assert work.distance("whole", "two") < 1e-6
    assert work.distance("adamw", "two_adamw") < 2e-5
    assert work.distance("fp64", "two_fp64") < 1e-10
    assert (work.folder / "two/model/saved_model/1/saved_model.pb").is_file()


def test_trees_of_tensors_are_trained_measured_and_exported_like_one(work: Work, alone: Any, pair: Any) -> None:
    """(drivetrain.training.trees; evaluations on 1, 2 and 3 processes are compared below.)"""
    assert work.distance("whole", "trees") == 0.0
    assert work.distance("whole", "two_trees") < 1e-6
    plain, tree = alone["evaluations"]
    assert tree == plain and alone["exports"] == [{"saved_model": True, "keras": True}]
    folders = [work.folder / f"{name}/model-predictions" for name in ("whole", "trees")]
    first, second = (parquet.read_table(sorted(folder.rglob("*.parquet"))).to_pydict() for folder in folders)
    assert first == second


def test_several_optimizers_have_variables_and_schedules_of_their_own(work: Work, alone: Any, pair: Any) -> None:
    assert work.distance("several", "several_cut") == 0.0
    assert work.distance("several", "whole") > 1e-3
    assert work.distance("several", "two_several") < 2e-5


def test_two_processes_go_on_where_one_was_cut_off(work: Work, pair: Any) -> None:
    assert work.distance("whole", "moved") < 1e-6
    assert [row["step"] for row in work.steps("moved")] == list(range(1, 21))


def test_evaluation_has_the_same_digits_on_one_two_and_three_processes(work: Work, alone: Any, pair: Any) -> None:
    model = shutil.copytree(work.folder / "whole/model", work.folder / "once_more/model")
    tree = shutil.copytree(work.folder / "trees/model", work.folder / "trees_once_more/model")
    three = run(work.given(evaluate=[str(model), str(tree)]), processes=3)
    assert three["evaluations"] == pair["evaluations"] == alone["evaluations"]
    best = min(work.history("whole"), key=lambda row: row["validation_loss"])
    assert alone["evaluations"][0]["loss"] == best["validation_loss"]
    assert alone["shards"] == [1, 1]
    described = json.loads((work.folder / "whole/model/model.json").read_text())
    assert described["framework"] == "tensorflow" and described["versions"]["tensorflow"].startswith("2.")
