"""Training with parameter servers is asynchronous: with several workers no two runs are equal. Each sample is learnt
from once all the same, also after a restart; and with one worker nothing is left to chance."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.prepared_data import digit_columns
from tests.tensorflow.trainings import Work, run

pytestmark = pytest.mark.tensorflow

NOTING = {"recipe": "tests.tensorflow.noting", "recipe_options": "{}", "prefetch": 0, "keep_best": False}
ASYNCHRONOUS = NOTING | {"strategy": "tf_parameter_server"}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return Work(tmp_path_factory.mktemp("servers"))


@pytest.fixture(scope="module")
def found(work: Work) -> Any:
    """On two workers: one that is cut off in its second epoch and goes on; and what is refused."""
    runs = [
        ("whole", ASYNCHRONOUS),
        ("cut", ASYNCHRONOUS | {"max_steps": 6}),
        ("cut", ASYNCHRONOUS),
        ("averages", ASYNCHRONOUS | {"ema_decay": 0.5}),
        ("scales", ASYNCHRONOUS | {"precision": "fp16"}),
        ("profiled", ASYNCHRONOUS | {"profile": 2}),
    ]
    given = work.given(*runs, evaluate=[str(work.folder / "cut/model")])
    for one in given["runs"]:
        one |= {"refused": Path(one["target"]).name in ("averages", "scales", "profiled"), "validates": False}
    return run(given, processes=4, roles="chief=1,worker=2,ps=1")


@pytest.mark.shows("resumes", strategies=["tf_parameter_server"])
def test_each_sample_is_learnt_from_once_an_epoch(work: Work, found: Any) -> None:
    assert [row["step"] for row in work.steps("cut")] == list(range(1, 21))
    whole, rest = (found["runs"][number]["labels"][-250:] for number in (0, 2))  # (after what is looked at beforehand)
    every = sorted(int(label) for label in digit_columns(50)["label"])
    assert [sorted(whole[epoch * 50 : epoch * 50 + 50]) for epoch in range(5)] == [every] * 5
    assert len(rest) < 250 and rest[-168:] == whole[-168:]
    losses = [row["train_loss"] for row in work.steps("cut")]
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])


@pytest.fixture(scope="module")
def alone(work: Work, found: Any) -> Any:
    """One process, also under the strategy that wants more; and an evaluation of what two workers have trained."""
    model = shutil.copytree(work.folder / "cut/model", work.folder / "again/model")
    given = work.given(("one", NOTING), ("lonely", ASYNCHRONOUS), evaluate=[str(model)])
    given["runs"][1]["refused"] = True
    return run(given)


@pytest.mark.shows("exact evaluation", strategies=["tf_parameter_server"])
def test_its_model_is_evaluated_to_the_same_digits_in_a_cluster_and_alone(found: Any, alone: Any) -> None:
    assert found["evaluations"] == alone["evaluations"]
    assert found["evaluations"][0]["num_samples"] == 50


@pytest.mark.shows("equals one process", strategies=["tf_parameter_server"])
def test_one_worker_equals_one_process(work: Work, alone: Any) -> None:
    run(work.given(("one_worker", ASYNCHRONOUS)), processes=3, roles="chief=1,worker=1,ps=1")
    assert work.distance("one", "one_worker") < 1e-6


def test_unsupported_settings_are_refused(found: Any) -> None:
    averages, scales, profiled = (one["refused"] for one in found["runs"][3:])
    assert averages.startswith(
        "ema_decay=0.5 under 'tf_parameter_server': Parameters change while they would be averaged."
    )
    assert scales.startswith("precision fp16 under 'tf_parameter_server': The workers would scale")
    assert profiled.startswith("profile=2 under 'tf_parameter_server': It would record the chief, and workers compute.")


def test_without_servers_it_says_how_to_start(alone: Any) -> None:
    assert "runs in a chief, beside workers and a parameter server" in alone["runs"][1]["refused"]
