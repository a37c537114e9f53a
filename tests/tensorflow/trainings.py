"""Trainings in the environment with TensorFlow, and what they leave."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from drivetrain.training.health import recording
from tests.distributed.prepared_data import digit_columns, write_prepared

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs" / "tensorflow" / "bin" / "python"
PROGRAM = Path(__file__).with_name("program.py")
# Where `make horovod` has put Horovod for TensorFlow.
HOROVOD = ROOT / ".venvs" / "horovod-tensorflow"
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


def run(
    given: dict[str, Any],
    *,
    processes: int = 1,
    launcher: str = "tf_config",
    roles: str = "",
    fails: bool = False,
    hosts: int = 1,
) -> Any:
    """What the program says; of one process, it is started as it is. `hosts` are loopback addresses, which share the
    processes out: each has a launcher of its own. (Servers of TensorFlow listen on all addresses of a machine, so a
    `tf_` strategy that has some would find its port taken.)"""
    if not PYTHON.exists():
        pytest.skip("no .venvs/tensorflow: run `make test-in ENV=tensorflow`")
    command = [str(PYTHON)]
    with held_ports(processes + 1) as port:
        if processes > 1:
            each = processes // hosts
            options = [f"--processes={each}", f"--launcher={launcher}", f"--port={port}", f"--roles={roles}"]
            command += ["-m", "drivetrain.training_scripts.launch", *options, "--script"]
        command += [str(PROGRAM), json.dumps(given)]
        with ThreadPoolExecutor(hosts) as pool:
            done, *others = pool.map(lambda variables: started(command, **variables), _hosts(hosts))
    if fails:
        assert done.returncode
        return done.stderr
    for ended in (done, *others):
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _hosts(number: int) -> list[Mapping[str, str]]:
    """What each of several launchers is told of its place."""
    names = [f"127.0.0.{place + 2}" for place in range(number)]
    if number == 1:
        return [{}]
    return [{"DRIVETRAIN_HOSTS": ",".join(names), "DRIVETRAIN_HOST": name} for name in names]


def started(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{ROOT}{os.pathsep}{HOROVOD}"
    given = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=900, check=False, cwd=ROOT)


class Work:
    """A folder of trainings, each done once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = write_prepared(folder / "data", digit_columns(50))

    def given(self, *runs: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
        listed = [{"target": str(self.folder / name), "config": CONFIG | change} for name, change in runs]
        return {"data": str(self.data), "runs": listed, **more}

    def weights(self, name: str) -> dict[str, Any]:
        return load_file(self.folder / name / "model/model.safetensors")

    def distance(self, one: str, other: str) -> float:
        return apart(self.weights(one), self.weights(other))

    def history(self, name: str) -> list[dict[str, Any]]:
        return json.loads((self.folder / name / "output/history.json").read_text())

    def steps(self, name: str) -> list[dict[str, Any]]:
        """What was written down of each step."""
        lines = (self.folder / name / "output/metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def summed(self, name: str) -> dict[int, Any]:
        """Records of health that have the sums of tensors, by step."""
        records = recording.read(self.folder / name / "output/health/records.jsonl")[1]
        return {record.step: record for record in records if record.tensors}


def apart(first: dict[str, Any], second: dict[str, Any]) -> float:
    """The largest difference between two sets of weights."""
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name].astype(np.float64) - second[name]).max()) for name in first)
