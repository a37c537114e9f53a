"""Scripts with Horovod, of the kind that its examples teach, run unchanged through `train_script`: under mpirun, as in
SageMaker's containers, and as horovodrun starts them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.training.launch.processes.parent import announce_parent

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "tests" / "fixtures" / "horovod_scripts"
TENSORFLOW = ROOT / ".venvs" / "tensorflow" / "bin" / "python"
FOR_TENSORFLOW = ROOT / ".venvs" / "horovod-tensorflow"

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.usefixtures("new_interpreters"),
    pytest.mark.skipif(
        importlib.util.find_spec("horovod") is None, reason="did not run: Horovod is not built (make horovod)"
    ),
]
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI: apt-get install openmpi-bin")
needs_tensorflow = pytest.mark.skipif(
    not (TENSORFLOW.exists() and (FOR_TENSORFLOW / ".installed").exists()),
    reason="did not run: Horovod is not built for TensorFlow (make horovod)",
)
Ended = dict[int, tuple[str, float, str]]
Run = Callable[..., tuple[Ended, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(script, launcher)`: what each of two ranks printed last, (processes, accuracy, weights), and all of it."""
    from sklearn.datasets import load_digits

    data = tmp_path / "data"
    data.mkdir()
    found = load_digits()
    np.savez(data / "digits.npz", images=found.images[:600], labels=found.target[:600])

    def started(
        script: str, launcher: str, hyperparameters: str = "{}", python: str = sys.executable, **variables: str
    ) -> tuple[Ended, str]:
        model = tmp_path / f"model of {launcher}"
        words = {
            **{"train": data, "model": model, "output": tmp_path / "output", "checkpoints": tmp_path / "checkpoints"},
            **{"script": script, "launcher": launcher, "processes": 2, "hyperparameters": hyperparameters},
        }
        ended = subprocess.run(
            [python, "-m", "drivetrain.components.train_script", *(f"--{name}={word}" for name, word in words.items())],
            cwd=SCRIPTS,
            env=announce_parent({**os.environ, "CUDA_VISIBLE_DEVICES": "", **variables}),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == 0, f"{ended.stdout[-1000:]}\n{ended.stderr[-3000:]}"
        assert any(model.iterdir()), "no model"
        lines = re.findall(r"rank (\d) of (\d) accuracy=([\d.]+) weights=([\d.]+)", ended.stdout)
        return {int(rank): (size, float(accuracy), weights) for rank, size, accuracy, weights in lines}, ended.stdout

    return started


def assert_two_agree(ended: Ended, least: float) -> None:
    assert ended.keys() == {0, 1} and ended[0] == ended[1]
    assert ended[0][0] == "2" and ended[0][1] > least, ended


@needs_mpirun
def test_torch_by_mpirun_and_by_gloo_is_one_training(run: Run) -> None:
    by_mpi, _ = run("torch_digits.py", "mpirun", '{"epochs": 6}')
    assert_two_agree(by_mpi, 0.5)
    by_gloo, _ = run("torch_digits.py", "horovodrun", '{"epochs": 6}')
    assert by_gloo == by_mpi


@needs_mpirun
def test_torch_with_adasum_fp16_autotune_and_a_fusion_threshold(run: Run, tmp_path: Path) -> None:
    """Horovod's variables are the script's environment; they reach every rank (`-x`)."""
    told = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(tmp_path / "tuned.csv"), "HOROVOD_CYCLE_TIME": "3.5"}
    hyperparameters = '{"epochs": 4, "lr": 0.1, "use-adasum": true, "fp16-allreduce": true}'
    ended, _ = run("torch_digits.py", "mpirun", hyperparameters, HOROVOD_FUSION_THRESHOLD="1048576", **told)
    assert_two_agree(ended, 0.3)
    assert (tmp_path / "tuned.csv").exists()


SUM = """
import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), name="total", op=hvd.Sum).item()
print(f"rank {hvd.rank()} local {hvd.local_rank()} of {hvd.local_size()} cross {hvd.cross_rank()} sum {total:.0f}")
"""


def test_two_hosts_meet_without_mpi_or_ssh(two_hosts: Callable[..., list[Any]], tmp_path: Path) -> None:
    (tmp_path / "sum.py").write_text(SUM)
    path = os.environ["PYTHONPATH"]
    hosts = two_hosts("--launcher=horovodrun", "--script", "sum.py", processes=2, PYTHONPATH=path)
    said = [host.communicate(timeout=120) for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], said
    assert [sorted(line for line in out.splitlines() if line.startswith("rank")) for out, _ in said] == [
        [f"rank {2 * host + local} local {local} of 2 cross {host} sum 10" for local in (0, 1)] for host in (0, 1)
    ]


def of_tensorflow(**variables: str) -> dict[str, str]:
    """What a Horovod script of TensorFlow needs: its own wheel, and Keras 2."""
    path = f"{ROOT}{os.pathsep}{FOR_TENSORFLOW}"
    return {"python": str(TENSORFLOW), "PYTHONPATH": path, "TF_USE_LEGACY_KERAS": "1", **variables}


@needs_mpirun
@needs_tensorflow
def test_keras_with_callbacks_by_mpirun(run: Run) -> None:
    ended, out = run("keras_callbacks.py", "mpirun", '{"epochs": 5}', **of_tensorflow())
    assert_two_agree(ended, 0.5)
    assert "Epoch 2: finished gradual learning rate warmup to 0.004." in out


@needs_tensorflow
def test_tensorflow_with_a_gradient_tape_by_gloo(run: Run) -> None:
    ended, _ = run("tensorflow_tape.py", "horovodrun", '{"steps": 120}', **of_tensorflow())
    assert_two_agree(ended, 0.5)
