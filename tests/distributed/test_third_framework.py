"""A framework that nobody has thought of is one folder (tests/fixtures/dry) and one strategy file: it trains,
checkpoints, resumes, evaluates and predicts, by the programs and the loop that torch's strategies have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from drivetrain.base.errors import InputError
from drivetrain.base.ports import held_port
from drivetrain.training.group import tcp
from drivetrain.training.process import Process
from drivetrain.training_scripts import evaluate, predict
from tests.fixtures.dry.programs import CONFIG, alone, fit, install

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "tensorflow"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch.setattr)


def fit_over_tcp(process: Process, port: int, data: Path, target: Path) -> None:
    group = tcp.join(process.rank, process.world_size, "127.0.0.1", port, 30)
    fit(replace(process, device="cpu", joined=group), CONFIG, data, target)


def weights(target: Path) -> dict[str, Any]:
    return load_file(target / "model/model.safetensors")


def history(target: Path) -> list[dict[str, Any]]:
    return json.loads((target / "output/history.json").read_text())


def test_it_trains_alike_on_one_and_two_ranks(forked: Any, digits: Path, tmp_path: Path) -> None:
    fit(alone(), CONFIG, digits, tmp_path / "one")
    with held_port() as port:
        forked(2, fit_over_tcp, port.getsockname()[1], digits, tmp_path / "two")
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max(float(np.abs(one[name] - two[name]).max()) for name in one) < 1e-12
    losses = [row["validation_loss"] for row in history(tmp_path / "one")]
    assert len(losses) == 3 and losses[-1] < 0.5 * losses[0]


def test_a_third_framework_resumes(digits: Path, tmp_path: Path) -> None:
    fit(alone(), CONFIG, digits, tmp_path / "whole")
    fit(alone(), replace(CONFIG, max_steps=6), digits, tmp_path / "cut")
    fit(alone(), CONFIG, digits, tmp_path / "cut")
    saved = {path.name for path in (tmp_path / "cut/checkpoints").rglob("step-*")}
    assert len(saved) >= 3
    for name, value in weights(tmp_path / "whole").items():
        assert np.array_equal(value, weights(tmp_path / "cut")[name])


def test_its_model_folder_is_evaluated_and_predicted_with(digits: Path, tmp_path: Path) -> None:
    fit(alone(), CONFIG, digits, tmp_path / "run")
    best = min(history(tmp_path / "run"), key=lambda row: row["validation_loss"])
    found = evaluate.run(tmp_path / "run/model", digits, alone(), report=tmp_path / "report")
    assert found["loss"] == best["validation_loss"] and found["accuracy"] == best["validation_accuracy"]
    assert (tmp_path / "report/evaluation.json").is_file()
    description = json.loads((tmp_path / "run/model/model.json").read_text())
    assert description["framework"] == "tests.fixtures.dry" and "torch" not in description["versions"]
    done = predict.run(tmp_path / "run/model", digits, tmp_path / "predictions", alone())
    assert done["shards_predicted"] == 1 and done["rows"] == 50


def test_a_recipe_of_another_framework_is_refused(digits: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"recipe 'digits_cnn' is of torch, and strategy 'dry' of tests.fixtures.dry"):
        fit(alone(), replace(CONFIG, recipe="digits_cnn"), digits, tmp_path / "run")
    with pytest.raises(InputError, match=r"recipe 'tests.fixtures.dry.recipe' is of .*Choose a strategy of .*: dry"):
        fit(alone(), replace(CONFIG, strategy="single"), digits, tmp_path / "run")


def test_everything_runs_without_an_installed_framework(digits: Path, tmp_path: Path) -> None:
    """One process trains, resumes and evaluates with torch and tensorflow blocked."""
    program = f"""{BLOCKED}
from tests.fixtures.dry import programs
programs.run({str(digits)!r}, {str(tmp_path / "run")!r})
assert not {{"torch", "tensorflow"}} & sys.modules.keys()
"""
    (tmp_path / "program.py").write_text(program)
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["accuracy"] > 0.5
