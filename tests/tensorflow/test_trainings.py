"""Trainings under TensorFlow's strategies: what several replicas come to is what one comes to, over uneven batches,
also after a restart on another number of processes; evaluation's digits do not depend on the number of processes, nor
on the framework."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.tensorflow.trainings import ADAMW, CONFIG, Work, run

pytestmark = pytest.mark.tensorflow

TWO: dict[str, Any] = {"strategy": "tf_multi_worker", "strategy_options": '{"communication": "ring"}'}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    yield Work(tmp_path_factory.mktemp("tensorflow"))


@pytest.fixture(scope="module")
def alone(work: Work) -> Any:
    """One process: whole trainings, one that is cut off in its second epoch and goes on, an evaluation of one."""
    runs = [
        ("whole", {}),
        ("adamw", {"recipe_options": ADAMW}),
        ("cut", {"max_steps": 6}),
        ("resumed", {"max_steps": 6}),
        ("resumed", {}),
    ]
    model = str(work.folder / "whole/model")
    return run(work.given(*runs, evaluate=[model], predict=[model]))


def test_it_learns_and_its_step_is_traced_once(work: Work, alone: Any) -> None:
    losses = [row["validation_loss"] for row in work.history("whole")]
    assert losses[-1] < 0.8 * losses[0]
    assert [noted["traces"] for noted in alone["runs"]] == [1] * 5


def test_it_goes_on_where_it_was_bit_by_bit(work: Work, alone: Any) -> None:
    assert work.distance("whole", "resumed") == 0.0
    # (Where it was cut off it was validated, too.)
    assert work.history("whole") == [row for row in work.history("resumed") if row["step"] != 6]


def test_replicas_of_one_process_come_to_what_one_comes_to(work: Work, alone: Any) -> None:
    change = {"strategy": "tf_mirrored", "strategy_options": '{"cpus": 2}'}
    found = run(work.given(("mirrored", change), ("mirrored_adamw", change | {"recipe_options": ADAMW})))
    assert work.distance("whole", "mirrored") < 1e-6
    assert work.distance("adamw", "mirrored_adamw") < 2e-5
    assert [noted["traces"] for noted in found["runs"]] == [1, 1]


def test_two_processes_come_to_what_one_comes_to(work: Work, alone: Any) -> None:
    run(work.given(("two", TWO)), processes=2)
    assert work.distance("whole", "two") < 1e-6


def test_two_processes_go_on_where_one_was_cut_off(work: Work, alone: Any) -> None:
    """In mid-epoch, from the same store."""
    shutil.copytree(work.folder / "cut", work.folder / "moved")
    run(work.given(("moved", TWO)), processes=2)
    assert work.distance("whole", "moved") < 1e-6
    assert [row["step"] for row in work.steps("moved")] == list(range(1, 21))


def test_evaluation_has_the_same_digits_on_two_processes(work: Work, alone: Any) -> None:
    model = work.folder / "whole/model"
    shutil.copytree(model, work.folder / "again/model")
    found = run(work.given(evaluate=[str(work.folder / "again/model")]), processes=2, launcher="tf_config")
    assert found["evaluations"] == alone["evaluations"]
    best = min(work.history("whole"), key=lambda row: row["validation_loss"])
    assert alone["evaluations"][0]["loss"] == best["validation_loss"]
    assert alone["shards"] == [1]
    described = json.loads((model / "model.json").read_text())
    assert described["framework"] == "tensorflow" and described["versions"]["tensorflow"].startswith("2.")


def test_both_frameworks_measure_the_same_of_the_same_weights(work: Work, tmp_path: Path) -> None:
    import torch

    from drivetrain.training.config import Config, Folders
    from drivetrain.training.process import Process
    from drivetrain.training_scripts import evaluate
    from drivetrain.training_scripts.train import train

    process = Process(0, 1, 0, 1, torch.device("cpu"))
    own = {name: value for name, value in CONFIG.items() if name != "recipe_options"}
    own |= {"recipe": "digits_cnn", "recipe_options": ADAMW, "strategy": "single", "learning_rate": 0.01}
    train(Config(**own), Folders(train=work.data, validation=work.data, model=tmp_path / "torch"), process)
    theirs = evaluate.run(tmp_path / "torch", work.data, process)
    save_keras(tmp_path / "torch", tmp_path / "keras")
    (found,) = run(work.given(evaluate=[str(tmp_path / "keras")]))["evaluations"]
    assert found.keys() == theirs.keys()
    for name in theirs:
        assert found[name] == pytest.approx(theirs[name], abs=1e-6), name
    assert found["accuracy"] == theirs["accuracy"]


def save_keras(folder: Path, target: Path) -> None:
    """The twin's model folder."""
    from drivetrain.training.model_folder import read_description, write_folder

    tensors = list(load_file(folder / "model.safetensors").items())
    turned = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}
    values = [np.ascontiguousarray(value.transpose(turned[value.ndim])) for _, value in ordered(tensors)]
    names = [f"{number:03d}.{('kernel', 'bias')[number % 2]}" for number in range(len(values))]
    save_file(dict(zip(names, values, strict=True)), folder / "twin.safetensors")
    description = read_description(folder) | {"framework": "tensorflow", "recipe": "digits_keras"}
    del description["weights"], description["format"]
    write_folder(target, (folder / "twin.safetensors").read_bytes(), description)


def ordered(tensors: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """By layer, the weights before the biases, as Keras has them."""
    return sorted(tensors, key=lambda each: (int(each[0].split(".")[0]), each[0].endswith("bias")))
