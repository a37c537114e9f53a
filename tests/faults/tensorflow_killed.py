"""SIGKILL a training under one of TensorFlow's strategies in the middle of its steps: the whole job, or one rank.

Its processes are started anew, not forked: TensorFlow has threads that a fork does not take along.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training import plugins
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.progress import ROOT

FAULT = "a training under TensorFlow SIGKILLed in its steps: resumes, each step once, weights bit-equal if synchronous"
_ENVIRONMENTS = ROOT / ".venvs"
# Horovod's is left out where `make horovod` has not built it.
STRATEGIES = tuple(
    name
    for name in plugins.of_framework("strategies", "tensorflow")
    if name != "tf_horovod" or (_ENVIRONMENTS / "horovod-tensorflow" / ".installed").exists()
)
TRIALS, QUICK, AT_ONCE = 25 * len(STRATEGIES), 1, 1
PATIENCE_S = 600.0

_PYTHON = _ENVIRONMENTS / "tensorflow" / "bin" / "python"
_SECONDS, _DYING_S = 240.0, 20.0
_ROWS, _EPOCHS = 50, 10
_STEPS = 4 * _EPOCHS  # of 16 rows, the last of an epoch of 2
_OPTIONS = {"tf_mirrored": '{"cpus": 2}', "tf_central_storage": '{"cpus": 2}', "tf_horovod": '{"group_mb": 0.0005}'}
_RANKS = {"tf_multi_worker": 2, "tf_parameter_server": 3, "tf_horovod": 3}
# Of which no two runs are equal.
_ASYNCHRONOUS = ("tf_parameter_server",)


class Shared:
    """The data, and the weights of an uninterrupted training under each strategy, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        from tests.distributed.prepared_data import digit_columns, write_prepared

        if not _PYTHON.exists():
            raise FileNotFoundError(f"{_PYTHON}: make it with `make .venvs/tensorflow/.installed`")
        self.folder, self.data = folder, write_prepared(folder / "data", digit_columns(_ROWS))
        self._weights: dict[str, Any] = {}

    def weights(self, strategy: str) -> Any:
        if strategy not in self._weights:
            whole = self.folder / strategy
            with started(strategy, self.data, whole) as process:
                code = process.wait(_SECONDS)
            assert code == 0, f"uninterrupted: {code}\n{said(whole)}"
            self._weights[strategy] = weights_of(whole)
        return self._weights[strategy]


def prepare(folder: Path) -> Shared:
    return Shared(folder)


def trial(given: Trial, shared: Shared) -> Found:
    strategy = given.in_turn(STRATEGIES)
    whole = {} if strategy in _ASYNCHRONOUS else shared.weights(strategy)
    after, one = given.draw.randrange(1, _STEPS * 3 // 4), given.draw.random() < 0.5 and strategy in _RANKS
    rank = str(given.draw.randrange(_RANKS[strategy])) if one else ""
    with started(strategy, shared.data, given.folder) as process:
        while len(steps_of(given.folder)) < after and process.poll() is None:
            time.sleep(0.01)
        ended = process.poll() is not None
        for pid in processes_of(given.folder, rank):
            os.kill(pid, signal.SIGKILL)
        code = process.wait(_SECONDS)
    at = len(steps_of(given.folder))
    did = {f"{strategy}, {'a rank' if one else 'all'}{', ended before' if ended else ''}": 1}
    violations = []
    if not ended and code == 0:
        violations.append("it was killed and ended with 0")
    if left := left_of(given.folder):
        violations.append(f"processes are left: {left}")
    with started(strategy, shared.data, given.folder) as process:
        code = process.wait(_SECONDS)
    if code != 0:
        return Found(
            [*violations, f"killed at step {at}, the resumed training ended with {code}: {said(given.folder)}"], did
        )
    if steps_of(given.folder) != list(range(1, _STEPS + 1)):
        violations.append(f"the steps are not each there once: {steps_of(given.folder)}")
    found = weights_of(given.folder)
    if strategy in _ASYNCHRONOUS:
        return Found(violations, did)
    if found.keys() != whole.keys() or any((found[name] != whole[name]).any() for name in whole):
        violations.append(f"killed at step {at}: other weights than those of the uninterrupted training")
    return Found(violations, did)


@contextmanager
def started(strategy: str, data: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The training's launcher, whose processes are ended with the context."""
    from tests.tensorflow.trainings import HOROVOD, held_ports

    folder.mkdir(parents=True, exist_ok=True)
    ranks = _RANKS.get(strategy, 1)
    options = {
        **{"train": data, "validation": data, "recipe": "digits_keras", "strategy": strategy, "global-batch": 16},
        **{name: folder / name for name in ("model", "output", "checkpoints")},
        **{"epochs": _EPOCHS, "clip-norm": 0.5, "log-every": 1, "checkpoint-every": "3steps", "ema-decay": 0.9},
        **{"recipe-options": '{"channels": 4, "hidden": 16}', "strategy-options": _OPTIONS.get(strategy, "{}")},
        **{"validate-every": _STEPS, "collective-timeout": 60},
    }
    if strategy in _ASYNCHRONOUS:
        del options["ema-decay"]
    with held_ports(ranks + 1) as port:
        launch = [
            "-m",
            "drivetrain.training_scripts.launch",
            f"--processes={ranks}",
            f"--port={port}",
            "--stop-timeout=5",
        ]
        words = [f"--{name}={value}" for name, value in options.items()]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{HOROVOD}",
            "OMP_NUM_THREADS": "1",
            "TRIAL": str(folder),
            EXECUTION: "one",
        }
        with (folder / "said.txt").open("ab") as log:
            process = subprocess.Popen(
                [str(_PYTHON), *launch, "drivetrain.training_scripts.train", *words],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            for pid in processes_of(folder):
                os.kill(pid, signal.SIGKILL)
            process.wait()


def processes_of(folder: Path, rank: str = "") -> list[int]:
    """Those that live with `folder` in their environment; of one rank."""
    mark, found = f"TRIAL={folder}".encode(), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            gone = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if mark in variables and not gone and (not rank or f"RANK={rank}".encode() in variables):
            found.append(int(entry.name))
    return found


def left_of(folder: Path) -> list[int]:
    """Processes that have outlived the killed ones by more than a kernel under load needs to take those down."""
    until = time.monotonic() + _DYING_S
    while (left := processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def steps_of(folder: Path) -> list[int]:
    path = folder / "output" / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return [record["step"] for record in records if "rule" not in record]  # (which is a health rule that fired)


def weights_of(folder: Path) -> Any:
    from safetensors.numpy import load_file

    return load_file(folder / "model" / "model.safetensors")


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text(errors="replace")[-1500:]
