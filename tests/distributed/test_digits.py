"""The shipped digits through the components' own commands: prepare, train on two processes, evaluate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.forked_python import forked_python

DIGITS = Path(__file__).parents[2] / "pipelines/data/digits.csv.gz"


def command(component: str, **values: object) -> str:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    ended = subprocess.run(
        [sys.executable, "-m", f"drivetrain.components.{component}", *arguments], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_accuracy_is_above_97_percent_on_unseen_images(tmp_path: Path) -> None:
    with forked_python():
        train_and_evaluate(tmp_path)


def train_and_evaluate(tmp_path: Path) -> None:
    data = {name: tmp_path / name for name in ("train", "validation", "test")}
    command("prepare_data", raw=DIGITS, key="id", label="label", **data)
    kept = {name: tmp_path / name for name in ("model", "output", "checkpoints")}
    printed = command("train", train=data["train"], validation=data["validation"], processes=2, seed=7, **kept)
    assert len(re.findall(r"^epoch \d+/12 step \d+ train_loss=\S+ validation_loss=", printed, re.MULTILINE)) == 12
    command("evaluate", model=tmp_path / "model", data=data["test"], metrics=tmp_path / "metrics")
    numbers = json.loads((tmp_path / "metrics/metrics.json").read_text())
    assert numbers["accuracy"] > 0.97
    assert numbers["num_samples"] == json.loads((data["test"] / "manifest.json").read_text())["rows"]

    description = json.loads((tmp_path / "model/model.json").read_text())
    assert description["training"]["world_size"] == 2
    assert description["metrics"]["validation_accuracy"] > 0.95
    assert set(description["input_statistics"]) == {"label", *(f"p{number}" for number in range(64))}
    assert str(tmp_path) not in json.dumps(description)  # nothing of where it was made
