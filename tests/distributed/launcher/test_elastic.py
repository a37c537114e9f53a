"""Jobs that go on: with the hosts that are there, with one that comes late, and from a checkpoint after a crash."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.ports import held_port
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]

MEET = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"done {dist.get_rank()} of {total.item():.0f}", flush=True)
dist.destroy_process_group()
"""
# While it is alone it works on until it is stopped, for the one that comes.
MEET_THE_LATE = (
    """
import os, signal
print(f"world {os.environ['WORLD_SIZE']}", flush=True)
if os.environ["WORLD_SIZE"] == "1":
    signal.pause()
"""
    + MEET
)
# The digits recipe, of which rank 1 fails once, when there is something to go on from.
FAILS_ONCE = """
import os
from pathlib import Path
from drivetrain.training_scripts.recipes import digits_cnn

class Recipe(digits_cnn.Recipe):
    def losses(self, outputs, targets):
        first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1"
        if first and "FAIL_FROM" in os.environ and any(Path(os.environ["FAIL_FROM"]).rglob("manifest.json")):
            raise ValueError("the first time")
        return super().losses(outputs, targets)
"""


def test_an_elastic_job_starts_without_a_missing_host(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MEET)
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.2", 0))
        process = start(
            *("--processes=2", "--nodes=1:2", "--last-call=1", "--resolve-timeout=1", "--script", "train.py"),
            DRIVETRAIN_HOSTS="127.0.0.2,no-such-host.invalid",
            DRIVETRAIN_HOST="127.0.0.2",
            DRIVETRAIN_PORT=str(held.getsockname()[1]),
        )
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "1 to 2 hosts x 2 processes" in out
    assert sorted(line for line in out.splitlines() if line.startswith("done")) == ["done 0 of 2", "done 1 of 2"]


def test_a_late_host_joins(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MEET_THE_LATE)
    hosts = ("127.0.0.2", "127.0.0.3")
    with held_port() as held:

        def started(host: str) -> subprocess.Popen[str]:
            return start(
                *("--processes=1", "--nodes=1:2", "--last-call=1", "--script", "train.py"),
                DRIVETRAIN_HOSTS=",".join(hosts),
                DRIVETRAIN_HOST=host,
                DRIVETRAIN_PORT=str(held.getsockname()[1]),
                DRIVETRAIN_FAILURE_FILE=str(tmp_path / f"failure-{host}"),
            )

        first = started(hosts[0])
        assert first.stdout is not None
        assert any(line == "world 1\n" for line in first.stdout)  # reads on until it works alone
        ended = [(process, *process.communicate(timeout=180)) for process in (first, started(hosts[1]))]
    done: list[str] = []
    for process, out, err in ended:
        assert process.returncode == 0, err
        assert out.splitlines().count("world 2") == 1
        done += [line for line in out.splitlines() if line.startswith("done")]
    assert sorted(done) == ["done 0 of 2", "done 1 of 2"]
    assert not list(tmp_path.glob("failure*"))


SETTINGS: dict[str, Any] = {"strategy": "ddp", "epochs": 3, "global_batch": 16, "precision": "fp64"}


def fit(process: Process, data: Path, target: Path) -> None:
    folders = Folders(train=data, validation=data, model=target / "model", output=target / "output")
    train(Config(recipe="digits_cnn", **SETTINGS), folders, process)


def losses(folder: Path) -> list[tuple[float, float]]:
    history = json.loads((folder / "output" / "history.json").read_text())
    return [(epoch["train_loss"], epoch["validation_loss"]) for epoch in history]


def test_a_training_resumes_from_its_checkpoint_after_a_crash(
    start: Start, forked: Any, digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "fails_once.py").write_text(FAILS_ONCE)
    forked(2, fit, digits, tmp_path / "uninterrupted")
    folder = tmp_path / "resumed"
    folders = {"train": digits, "validation": digits} | {
        each: folder / each for each in ("model", "output", "checkpoints")
    }
    words = [f"--{key.replace('_', '-')}={value}" for key, value in (SETTINGS | folders).items()]
    process = start(
        *("--processes=2", "--max-restarts=1", "drivetrain.training_scripts.train", "--recipe=fails_once", *words),
        FAIL_FROM=str(folder / "checkpoints"),
        OMP_NUM_THREADS="1",  # as forked ranks have it: how a sum is split among threads decides its last bit
    )
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    assert "launcher: restart 1 of 1 (rank 1: ValueError: the first time)\n" in out
    assert "resuming from " in out, out
    assert losses(folder) == losses(tmp_path / "uninterrupted") and len(losses(folder)) == 3
