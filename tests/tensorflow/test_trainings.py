"""Trainings under TensorFlow's strategies: what several replicas come to is what one comes to, over uneven batches,
also after a restart on another number of processes; evaluation's digits do not depend on the number of processes, nor
on the framework."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.distributed.prepared_data import digit_columns, write_prepared

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs" / "tensorflow" / "bin" / "python"
PROGRAM = Path(__file__).with_name("program.py")
# 50 rows in batches of 16: the last batch of an epoch has 2. 20 steps. A gradient is clipped in most.
CONFIG: dict[str, Any] = {
    "recipe": "digits_keras",
    "recipe_options": '{"channels": 4, "hidden": 16, "optimizer_name": "sgd"}',
    "strategy": "tf_single",
    "global_batch": 16,
    "epochs": 5,
    "learning_rate": 0.05,
    "schedule": "constant",
    "clip_norm": 0.5,
    "log_every": 1,
    "keep_best": True,
    "checkpoint_every": "3steps",
}
ADAMW = '{"channels": 4, "hidden": 16}'
TWO: dict[str, Any] = {"strategy": "tf_multi_worker", "strategy_options": '{"communication": "ring"}'}


@contextmanager
def held_ports(count: int) -> Iterator[int]:
    """The first of so many free ports in a row: each process has one, and their group another. All but servers that
    listen beside it by SO_REUSEADDR find them taken."""
    for first in range(20_000 + os.getpid() % 5_000, 32_000, count):
        with ExitStack() as kept:
            try:
                for port in range(first, first + count):
                    held = kept.enter_context(socket.socket())
                    held.bind(("0.0.0.0", port))
            except OSError:
                continue
        yield first
        return
    raise AssertionError("no free ports")


def run(given: dict[str, Any], *, processes: int = 1, launcher: str = "tf_config", fails: bool = False) -> Any:
    """What the program says; of one process, it is started as it is."""
    if not PYTHON.exists():
        pytest.skip("no .venvs/tensorflow: run `make test-tensorflow`")
    command = [str(PYTHON)]
    with held_ports(processes + 1) as port:
        if processes > 1:
            options = [f"--processes={processes}", f"--launcher={launcher}", f"--port={port}"]
            command += ["-m", "drivetrain.training_scripts.launch", *options, "--script"]
        command += [str(PROGRAM), json.dumps(given)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=180, check=False, cwd=ROOT
        )
    if fails:
        assert done.returncode
        return done.stderr
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


class Work:
    """The trainings, each done once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = write_prepared(folder / "data", digit_columns(50))

    def given(self, *runs: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
        listed = [{"target": str(self.folder / name), "config": CONFIG | change} for name, change in runs]
        return {"data": str(self.data), "runs": listed, **more}

    def weights(self, name: str) -> dict[str, Any]:
        return load_file(self.folder / name / "model/model.safetensors")

    def distance(self, one: str, other: str) -> float:
        first, second = self.weights(one), self.weights(other)
        assert first.keys() == second.keys()
        return max(float(np.abs(first[name] - second[name]).max()) for name in first)

    def history(self, name: str) -> list[dict[str, Any]]:
        return json.loads((self.folder / name / "output/history.json").read_text())


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
    assert alone["traces"] == [1] * 5


def test_it_goes_on_where_it_was_bit_by_bit(work: Work, alone: Any) -> None:
    assert work.distance("whole", "resumed") == 0.0
    # (Where it was cut off it was validated, too.)
    assert work.history("whole") == [row for row in work.history("resumed") if row["step"] != 6]


def test_replicas_of_one_process_come_to_what_one_comes_to(work: Work, alone: Any) -> None:
    change = {"strategy": "tf_mirrored", "strategy_options": '{"cpus": 2}'}
    found = run(work.given(("mirrored", change), ("mirrored_adamw", change | {"recipe_options": ADAMW})))
    assert work.distance("whole", "mirrored") < 1e-6
    assert work.distance("adamw", "mirrored_adamw") < 2e-5
    assert found["traces"] == [1, 1]


def test_two_processes_come_to_what_one_comes_to(work: Work, alone: Any) -> None:
    run(work.given(("two", TWO)), processes=2)
    assert work.distance("whole", "two") < 1e-6


def test_two_processes_go_on_where_one_was_cut_off(work: Work, alone: Any) -> None:
    """In mid-epoch, from the same store."""
    shutil.copytree(work.folder / "cut", work.folder / "moved")
    run(work.given(("moved", TWO)), processes=2)
    assert work.distance("whole", "moved") < 1e-6
    steps = [json.loads(line)["step"] for line in (work.folder / "moved/output/metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 21))


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


@pytest.mark.parametrize(
    ("change", "processes", "message"),
    [
        ({"accumulation": 2}, 1, "accumulation=2: strategies of TensorFlow do not have it. Use a smaller global_batch"),
        ({}, 2, "strategy 'tf_single' is for one process, but 2 were started"),
    ],
)
def test_what_cannot_be_is_refused(
    change: dict[str, Any], processes: int, message: str, work: Work, tmp_path: Path
) -> None:
    work = Work(tmp_path)
    said = run(work.given(("run", change)), processes=processes, fails=True)
    assert message in said
    assert not (tmp_path / "run/model").exists()
