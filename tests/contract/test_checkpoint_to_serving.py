"""From a run to a model that is served: the commands that docs/checkpoints.md shows, on a real training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.distributed import prepared_data

COMMAND = str(Path(sys.executable).parent / "drivetrain")
TRAINING = ("recipe=digits_cnn", "epochs=2", "global_batch=16", "ema_decay=0.9", "train=build/train")


def call(folder: Path, *command: str, code: int = 0) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_a_training_on_two_processes_is_exported_evaluated_and_resumed(tmp_path: Path) -> None:
    data: ModuleType = prepared_data
    data.write_prepared(tmp_path / "build" / "train", data.digit_columns(50))
    settings = [word for given in TRAINING for word in ("--set", given)]
    call(tmp_path, COMMAND, "submit", "train", *settings, "--set", "strategy=fsdp", "--processes", "2")

    (listed,) = json.loads(call(tmp_path, COMMAND, "checkpoints", "list", "--json"))
    (newest,) = [row for row in listed["rows"] if row["newest"]]
    assert (newest["step"], newest["epoch"], newest["finished"], newest["world_size"], newest["strategy"]) == (
        *(8, 2, True),
        *(2, "fsdp"),
    )
    assert Path(listed["place"]).is_relative_to(tmp_path / ".drivetrain" / "s3")
    assert "good" in call(tmp_path, COMMAND, "checkpoints", "verify", "--all")

    call(tmp_path, COMMAND, "checkpoints", "export", "--out", "model")
    (archive,) = (tmp_path / ".drivetrain" / "s3").rglob("model.tar.gz")
    with tarfile.open(archive) as handed_on:
        for name in ("model.json", "model.safetensors"):
            content = handed_on.extractfile(name)
            assert content is not None and content.read() == (tmp_path / "model" / name).read_bytes()

    evaluated = [sys.executable, "-m", "drivetrain.components.evaluate"]
    call(tmp_path, *evaluated, "--model", "model", "--data", "build/train", "--metrics", "metrics")
    (numbers,) = (tmp_path / "metrics").glob("*.json")
    assert json.loads(numbers.read_text())["num_samples"] == 50

    call(tmp_path, COMMAND, "checkpoints", "export", "latest", "4", "--out", "early.safetensors")
    said = call(
        *(tmp_path, COMMAND, "submit", "train", *settings, "--set", "weights=early.safetensors"),
        *("--set", "max_steps=1", "--fresh"),
    )
    assert "succeeded" in said
