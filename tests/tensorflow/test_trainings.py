"""Trainings under TensorFlow's strategies: what several replicas come to is what one comes to, over uneven batches,
also after a restart on another number of processes; evaluation's digits do not depend on the number of processes, nor
on the framework."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from tests.tensorflow.trainings import ADAMW, HOROVOD, Work, run

pytestmark = pytest.mark.tensorflow

WITHOUT = not (HOROVOD / ".installed").exists()
needs_horovod = pytest.mark.skipif(WITHOUT, reason="did not run: Horovod is not built (make horovod)")

TWO: dict[str, Any] = {"strategy": "tf_multi_worker", "strategy_options": '{"communication": "ring"}'}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    yield Work(tmp_path_factory.mktemp("tensorflow"))


FP64 = {"precision": "fp64"}
TREES = {"recipe": "tests.tensorflow.tree_recipe"}
SEVERAL = {"recipe": "tests.tensorflow.two_optimizers", "recipe_options": "{}", "schedule": "sgdr"}
COMPILED, SCALED = {"compile": True}, {"precision": "fp16"}
# Each replica normalizes its own part: what it learns is not what one process learns.
NORMALIZED: dict[str, Any] = {
    "recipe": "tests.tensorflow.noting",
    "recipe_options": '{"makes": "batch_norm"}',
    "drop_last": True,
}


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
        ("noting", {"recipe": "tests.tensorflow.noting", "recipe_options": '{"makes": "ranks_apart"}'}),
        ("scaled", SCALED),
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
        "two_unwatched": {"health": False},
        "two_profiled": {"profile": 3, "max_steps": 5},
        "two_normalized": NORMALIZED,
        "moved": {},
    }
    runs = [(name, TWO | change) for name, change in changes.items()]
    return run(work.given(*runs, evaluate=[str(model), tree]), processes=2)


def test_it_learns_and_its_step_is_traced_once(work: Work, alone: Any) -> None:
    losses = [row["validation_loss"] for row in work.history("whole")]
    assert losses[-1] < 0.8 * losses[0]
    assert [noted["traces"] for noted in alone["runs"]] == [1] * 12


def test_health_rules_do_not_change_results_of_two_processes(work: Work, pair: Any) -> None:
    """(tests/tensorflow/test_config_fields.py shows the same of one.)"""
    assert work.distance("two", "two_unwatched") == 0.0
    losses, its = ([row["train_loss"] for row in work.steps(name)] for name in ("two", "two_unwatched"))
    assert losses == its
    assert {1, 2, 4, 8} <= work.summed("two").keys() and not (work.folder / "two_unwatched/output/health").exists()


def test_a_profile_of_two_processes(work: Work, pair: Any) -> None:
    folder = work.folder / "two_profiled/output/profile"
    names = ["all-ranks-trace.json", "operators.json", "rank0-operators.txt", "rank0-trace.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    calls = {row["name"]: row["calls"] for row in json.loads((folder / names[1]).read_text())["operators"]}
    assert calls["CollectiveReduceV2"] == 3 and calls["MatMul"] == 12
    events = json.loads((folder / names[0]).read_text())["traceEvents"]
    of_rank = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(of_rank.values()) == ["rank 0: /host:CPU", "rank 1: /host:CPU"]
    products = [event for event in events if event["name"].endswith(":MatMul")]
    assert sorted(of_rank[event["pid"]][:6] for event in products) == 12 * ["rank 0"] + 12 * ["rank 1"]
    # By one clock: each of the 3 steps of a rank meets that of the other.
    first, second = ([event["ts"] for event in products if of_rank[event["pid"]][5] == rank] for rank in "01")
    assert max(min(first), min(second)) < min(max(first), max(second))


@pytest.mark.parametrize("other", ["mirrored_fp64", "central_storage_fp64", "two_fp64"])
def test_health_sums_are_equal_on_any_number_of_replicas(
    other: str, work: Work, alone: Any, replicas: Any, pair: Any
) -> None:
    """Also of batches that are filled up: step 4 has 2 samples. (Some sums are 0 but for rounding.)"""
    one, several = work.summed("fp64"), work.summed(other)
    for step in (1, 2, 4, 8):
        assert one[step].layers.names == several[step].layers.names
        assert (one[step].layers["size"] == (2 if step % 4 == 0 else 16) * np.array([256, 512, 128, 16, 10])).all()
        assert (one[step].tensors["grad_sq"] > 0).all() and (one[step].tensors["update_sq"] > 0).all()
        for table in ("tensors", "layers"):
            mine, its = getattr(one[step], table), getattr(several[step], table)
            for column, values in mine.columns.items():
                assert (np.abs(values - its[column]) <= 1e-6 * np.abs(values) + 1e-15).all(), (step, table, column)


@pytest.mark.shows("resumes", strategies=["tf_single"])
def test_a_training_resumes_bit_for_bit(work: Work, alone: Any) -> None:
    assert work.distance("whole", "resumed") == 0.0
    # (Where it was cut off it was validated, too.)
    assert work.history("whole") == [row for row in work.history("resumed") if row["step"] != 6]


@pytest.fixture(scope="module")
def replicas(work: Work) -> Any:
    """Two replicas in one process, over batches that do not fill both, with clipping."""
    runs = [
        (f"{strategy}_{name}", {"strategy": f"tf_{strategy}", "strategy_options": '{"cpus": 2}', **change})
        for strategy in ("mirrored", "central_storage")
        for name, change in (("whole", {}), ("adamw", {"recipe_options": ADAMW}), ("fp64", FP64))
    ]
    trees: dict[str, Any] = {**runs[0][1], **TREES, "accumulation": 2}
    runs.append(("mirrored_trees", trees))
    of_whole = [(name, change) for name, change in runs if name.endswith("_whole")]
    runs += [(name.replace("whole", "cut"), change | {"max_steps": 6}) for name, change in of_whole]
    runs += [(name.replace("whole", "cut"), change) for name, change in of_whole]
    return run(work.given(*runs, evaluate=[str(work.folder / name / "model") for name, _ in of_whole]))


@pytest.mark.shows("equals one process", strategies=["tf_mirrored", "tf_central_storage"])
def test_replicas_of_one_process_equal_one_process(work: Work, alone: Any, replicas: Any) -> None:
    for strategy in ("mirrored", "central_storage"):
        assert work.distance("whole", f"{strategy}_whole") < 1e-6
        assert work.distance("adamw", f"{strategy}_adamw") < 2e-5
        assert work.distance("fp64", f"{strategy}_fp64") < 1e-10
    assert work.distance("whole", "mirrored_trees") < 1e-6
    assert [noted["traces"] for noted in replicas["runs"]] == [1] * 11


@pytest.mark.shows("resumes", "exact evaluation", strategies=["tf_mirrored", "tf_central_storage"])
def test_replicas_of_one_process_resume_and_evaluate_like_one(work: Work, replicas: Any) -> None:
    for strategy, evaluation in zip(("mirrored", "central_storage"), replicas["evaluations"], strict=True):
        assert work.distance(f"{strategy}_whole", f"{strategy}_cut") == 0.0
        best = min(work.history(f"{strategy}_whole"), key=lambda row: row["validation_loss"])
        assert evaluation["loss"] == best["validation_loss"]


@pytest.mark.shows("equals one process", strategies=["tf_multi_worker"])
def test_two_processes_equal_one_process(work: Work, pair: Any) -> None:
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
    # The outputs of one are logits, by which its samples are ranked; those of the other have scores of their own.
    assert {name: values for name, values in first.items() if not name.startswith("margin_")} == second


def test_several_optimizers_have_variables_and_schedules_of_their_own(work: Work, alone: Any, pair: Any) -> None:
    assert work.distance("several", "several_cut") == 0.0
    assert work.distance("several", "whole") > 1e-3
    assert work.distance("several", "two_several") < 2e-5


@pytest.mark.shows("resumes", strategies=["tf_multi_worker"])
def test_two_processes_resume_a_training_of_one(work: Work, pair: Any) -> None:
    assert work.distance("whole", "moved") < 1e-6
    assert [row["step"] for row in work.steps("moved")] == list(range(1, 21))


def of_horovod(**options: Any) -> dict[str, Any]:
    return {"strategy": "tf_horovod", "strategy_options": json.dumps(options)}


@pytest.fixture(scope="module")
def of_two(work: Work, alone: Any) -> Any:
    """Under Horovod on two hosts, which also go on where one process was cut off; from a model of its own on each."""
    shutil.copytree(work.folder / "cut", work.folder / "horovod_moved")
    changes: dict[str, Any] = {
        "whole": {},
        "adamw": {"recipe_options": ADAMW},
        "fp64": FP64,
        "moved": {},
        "rounded": of_horovod(compression="fp16"),
        "compiled": COMPILED,
        "scaled": SCALED,
        "normalized": NORMALIZED,
        "apart": {"recipe": "tests.tensorflow.noting", "recipe_options": '{"makes": "ranks_apart"}'},
    }
    runs = [(f"horovod_{name}", of_horovod() | change) for name, change in changes.items()]
    model = str(work.folder / "horovod_whole/model")
    return run(work.given(*runs, evaluate=[model]), processes=2, launcher="horovodrun", hosts=2)


@pytest.fixture(scope="module")
def three(work: Work, alone: Any) -> Any:
    """Three processes: evaluations; and where Horovod is built, trainings that send many groups of gradients."""
    models = [
        shutil.copytree(work.folder / f"{name}/model", work.folder / f"{name}_once_more/model")
        for name in ("whole", "trees")
    ]
    many = of_horovod(group_mb=0.0005)
    runs = [("three", many), ("three_cut", many | {"max_steps": 6}), ("three_cut", many), ("three_trees", many | TREES)]
    launcher = "mpirun" if shutil.which("mpirun") else "tf_config"
    given = work.given(*([] if WITHOUT else runs), evaluate=[str(model) for model in models])
    return run(given, processes=3, launcher=launcher)


@needs_horovod
@pytest.mark.shows("equals one process", "several hosts", strategies=["tf_horovod"])
def test_horovod_equals_one_process(work: Work, alone: Any, of_two: Any, three: Any) -> None:
    assert work.distance("whole", "horovod_whole") < 1e-6
    assert work.distance("whole", "three") < 1e-6
    assert work.distance("whole", "three_trees") < 1e-6
    assert work.distance("adamw", "horovod_adamw") < 2e-5
    assert work.distance("fp64", "horovod_fp64") < 1e-10
    assert [noted["traces"] for noted in (*of_two["runs"], *three["runs"])] == [1] * 13
    assert 0 < work.distance("whole", "horovod_rounded") < 1e-2


@needs_horovod
def test_horovod_compiles_scales_the_loss_and_normalizes(work: Work, alone: Any, pair: Any, of_two: Any) -> None:
    assert work.distance("whole", "horovod_compiled") < 1e-6
    # Half precision rounds what the ranks add up; the scale itself is a power of two, and changes nothing.
    assert 0 < work.distance("scaled", "horovod_scaled") < 2e-2
    norms = [[row["gradient_norm"] for row in work.steps(name)] for name in ("scaled", "horovod_scaled")]
    np.testing.assert_allclose(norms[1], norms[0], rtol=0.2)  # a scale that is left in would double them at least
    # What is learnt is what MultiWorkerMirrored learns, of which each replica normalizes its own part, too. (What the
    # two keep of the samples for evaluation differs: Horovod's are the means over both processes.)
    mirrored, found = work.weights("two_normalized"), work.weights("horovod_normalized")
    learnt = [name for name in mirrored if "moving" not in name]
    assert len(learnt) == 6 and found.keys() == mirrored.keys()
    assert max(float(np.abs(found[name] - mirrored[name]).max()) for name in learnt) < 1e-6


@needs_horovod
@pytest.mark.shows("resumes", strategies=["tf_horovod"])
def test_horovod_resumes_bit_for_bit_also_from_one_process(work: Work, of_two: Any, three: Any) -> None:
    assert work.distance("three", "three_cut") == 0.0
    assert work.distance("whole", "horovod_moved") < 1e-6
    assert [row["step"] for row in work.steps("horovod_moved")] == list(range(1, 21))


@needs_horovod
@pytest.mark.shows("exact evaluation", strategies=["tf_horovod"])
def test_horovods_model_is_evaluated_as_it_was_validated(work: Work, of_two: Any) -> None:
    """(Evaluations on 1, 2 and 3 processes, whatever trained the model, are compared below.)"""
    best = min(work.history("horovod_whole"), key=lambda row: row["validation_loss"])
    assert of_two["evaluations"][0]["loss"] == best["validation_loss"]


@needs_horovod
def test_under_horovod_all_ranks_start_with_the_model_of_rank_0(work: Work, alone: Any, of_two: Any) -> None:
    """Each rank has built another one: without that they would stay apart, and rank 0's be no longer one process's."""
    assert work.distance("noting", "horovod_apart") < 1e-6


@pytest.mark.shows("exact evaluation", strategies=["tf_single", "tf_multi_worker"])
def test_evaluation_has_the_same_digits_on_one_two_and_three_processes(
    work: Work, alone: Any, pair: Any, three: Any
) -> None:
    assert three["evaluations"] == pair["evaluations"] == alone["evaluations"]
    best = min(work.history("whole"), key=lambda row: row["validation_loss"])
    assert alone["evaluations"][0]["loss"] == best["validation_loss"]
    assert alone["shards"] == [1, 1]
    described = json.loads((work.folder / "whole/model/model.json").read_text())
    assert described["framework"] == "tensorflow" and described["versions"]["tensorflow"].startswith("2.")
