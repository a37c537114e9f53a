"""A script with DeepSpeed and a ds_config of its own, unchanged through `train_script`."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from drivetrain.training.launch.processes.parent import announce_parent

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "deepspeed_scripts"
Run = Callable[..., list[tuple[str, ...]]]
# 64 samples in batches of 32.
STEPS = 2 * 3


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(script, launcher)`: what each rank printed last: rank, size, local rank, stage, steps, weights."""
    from sklearn.datasets import load_digits

    data = tmp_path / "data"
    data.mkdir()
    found = load_digits()
    np.savez(data / "digits.npz", images=found.images[:64], labels=found.target[:64])

    def started(
        script: str, launcher: str, processes: int, config: str = "ds_config.json", **variables: str
    ) -> list[tuple[str, ...]]:
        model = tmp_path / launcher
        words = {
            **{"train": data, "model": model, "output": tmp_path / "output", "checkpoints": tmp_path / "checkpoints"},
            **{"script": script, "launcher": launcher, "processes": processes},
            "hyperparameters": json.dumps({"epochs": 3, "deepspeed_config": config}),
        }
        ended = subprocess.run(
            [sys.executable, "-m", "drivetrain.components.train_script", *(f"--{k}={v}" for k, v in words.items())],
            cwd=SCRIPTS,
            env=announce_parent({**os.environ, "CUDA_VISIBLE_DEVICES": "", **variables}),
            capture_output=True,
            text=True,
            timeout=1500,
        )
        assert ended.returncode == 0, f"{ended.stdout[-1000:]}\n{ended.stderr[-3000:]}"
        saved = sorted(path.name for path in (model / "last").iterdir())
        assert len([name for name in saved if name.endswith("optim_states.pt")]) == 2, saved
        said = r"rank (\d) of (\d) local_rank=(-?\d) stage=(\d) steps=(\d+) weights=([\d.]+)"
        return sorted(re.findall(said, ended.stdout))

    return started


@pytest.mark.slow
def test_a_script_runs_like_under_the_deepspeed_launcher(run: Run, tmp_path: Path) -> None:
    """On a machine without a GPU nothing is compiled first, which would take minutes and leave a lock behind, not even
    for a config that leaves the choice of Adam to DeepSpeed, with an option that torch's does not have."""
    importlib.import_module("deepspeed")  # once, here: what is started is forked from this process
    extensions, config = tmp_path / "extensions", json.loads((SCRIPTS / "ds_config.json").read_text())
    assert config["optimizer"]["params"].pop("torch_adam")
    config["optimizer"]["params"]["bias_correction"] = False
    (tmp_path / "config.json").write_text(json.dumps(config))
    first, second = run(
        "train.py", "deepspeed", 2, config=str(tmp_path / "config.json"), TORCH_EXTENSIONS_DIR=str(extensions)
    )
    assert first == ("0", "2", "0", "2", str(STEPS), first[-1])
    assert second == ("1", "2", "1", "2", str(STEPS), first[-1])  # the same weights
    assert not extensions.exists()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_by_a_hostfile_and_deepspeeds_own_launcher(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script of the user's that calls `deepspeed --hostfile ... --no_ssh`; DeepSpeed compiles for minutes."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    by_hostfile = run("run.sh", "python", 1)
    assert by_hostfile == run("train.py", "deepspeed", 2)
