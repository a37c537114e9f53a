"""A real training under the real launcher and torchrun, ended in every way: in time, with the right code, and the next
start goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("new_interpreters")]  # ranks are found by their command line

Start = Callable[..., "subprocess.Popen[str]"]
TIMEOUT = 4  # of a collective
SETTINGS = {
    "recipe": "digits_cnn",
    "recipe_options": '{"channels": 4, "hidden": 16}',
    "epochs": 150,
    "global_batch": 16,
    "log_every": 1,
    "checkpoint_every": "7steps",
    "validate_every": 30,
    "collective_timeout": TIMEOUT,
}
# An end takes a second or two; another that shares the machine may make it several times that.
BUSY = 10


def ranks_of(launcher: int) -> dict[int, int]:
    """Rank -> pid of the processes below a launcher."""
    parents: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"drivetrain.training.launch.processes.rank" not in words[:5]:
                continue
            lines = (entry / "environ").read_bytes().split(b"\0")
            variables = dict(line.split(b"=", 1) for line in lines if b"=" in line)
            if b"RANK" in variables:  # not while it is being started
                found.append((int(variables[b"RANK"]), int(entry.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue

    def is_below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == launcher:
                return True
        return False

    return {rank: pid for rank, pid in found if is_below(pid)}  # other tests have ranks of the same numbers


@pytest.fixture
def training(start: Start, prepared_data: ModuleType, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(50))
    # Its lines are more than a pipe holds: it cannot be done before somebody has read them.
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]

    def started(target: str) -> subprocess.Popen[str]:
        return start(
            *("--processes=2", "drivetrain.training_scripts.train", f"--train={data}", f"--validation={data}"),
            *(f"--model={tmp_path / target / 'model'}", f"--output={tmp_path / target / 'output'}"),
            *(f"--checkpoints={tmp_path / target / 'checkpoints'}", *settings),
            OMP_NUM_THREADS="1",  # as forked ranks have it
        )

    return started


def fit(process: Process, data: Path, target: Path) -> None:
    folders = Folders(
        train=data,
        validation=data,
        model=target / "model",
        output=target / "output",
        checkpoints=target / "checkpoints",
    )
    train(Config(**SETTINGS), folders, process)


def wait_for_steps(process: subprocess.Popen[str], steps: int) -> str:
    """What it said until it has taken so many."""
    assert process.stdout is not None
    said, seen = "", 0
    while seen < steps:
        line = process.stdout.readline()
        assert line, said
        said += line
        seen += line.startswith("epoch ")
    return said


def end_of_a_rank(training: Any, how: signal.Signals, *, within: float) -> str:
    """What the launcher says of a training one of whose ranks got a signal, and which ended in time for that."""
    process = training("cut")
    wait_for_steps(process, 10)
    begun = time.monotonic()
    os.kill(ranks_of(process.pid)[1], how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert time.monotonic() - begun < within + BUSY
    return err


def weights(folder: Path) -> tuple[bytes, Any]:
    return (folder / "model/model.safetensors").read_bytes(), json.loads((folder / "output/history.json").read_text())


@pytest.mark.nightly
def test_no_kind_of_end_loses_progress(training: Any, forked: Any, tmp_path: Path) -> None:
    """SIGTERM to the launcher and to one rank, in warm-up, SIGKILL in a collective, SIGSTOP."""
    process = training("cut")
    while not ranks_of(process.pid):  # torch is being imported
        assert process.poll() is None
        time.sleep(0.02)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert time.monotonic() - begun < 5 + BUSY

    process = training("cut")
    wait_for_steps(process, 10)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (75, "stopped by SIGTERM before the program was done; it can be tried again.\n")
    assert "stopped by SIGTERM at step " in out
    assert time.monotonic() - begun < 5 + BUSY

    process = training("cut")
    said = wait_for_steps(process, 10)
    assert "resuming from" in said
    os.kill(ranks_of(process.pid)[1], signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert err.startswith("stopped by SIGTERM at step ") and err.endswith(", which is saved; it can be tried again.\n")

    assert end_of_a_rank(training, signal.SIGKILL, within=5).startswith(
        "rank 1 of 2 on 127.0.0.1 failed: it was ended by SIGKILL"
    )
    assert end_of_a_rank(training, signal.SIGSTOP, within=TIMEOUT + 5).startswith(
        "rank 1 of 2 on 127.0.0.1 hangs: it did not come to "
    )

    process = training("cut")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "resuming from" in out
    forked(2, fit, tmp_path / "data", tmp_path / "whole", timeout=120)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
