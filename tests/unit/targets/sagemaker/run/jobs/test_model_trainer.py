"""What a training of the SDK's ModelTrainer brings, and what of it is changed for this machine; the real drivers run in
tests/sdk/test_model_trainer.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.jobs import model_trainer

START = """#!/bin/bash
if [[ -z "$SM_PYTHON_CMD" || -z "$SM_PIP_CMD" ]]; then
    echo "no Python"
fi
echo "Training Execution failed. For more details, see CloudWatch logs" >> /opt/ml/output/failure
source /opt/ml/input/sm_training.env
"""
ENVIRONMENT = 'import os\nSM_MASTER_ADDR = "algo-1"\nSM_MASTER_PORT = 7777\nprint(SM_MASTER_ADDR, SM_MASTER_PORT)\n'
SCRIPT = 'parser.add_argument("--flag", type=bool)\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The tree of a host with what ModelTrainer uploads, as far as it matters."""
    drivers = "input/data/sm_drivers"
    files = {
        f"{drivers}/sm_train.sh": START,
        f"{drivers}/scripts/environment.py": ENVIRONMENT,
        f"{drivers}/scripts/install_requirements.py": "raise SystemExit('installs')\n",
        **{f"{drivers}/distributed_drivers/{kind}_driver.py": "theirs\n" for kind in ("mpi", "torchrun", "own")},
        f"{drivers}/sourcecode.json": json.dumps({"entry_script": "train.py"}),
        f"{drivers}/distributed.json": json.dumps(
            {"process_count_per_node": 2, "mpi_additional_options": ["-x", "NAME=value", "--bind-to", "none"]}
        ),
        "input/config/hyperparameters.json": json.dumps({"flag": "true", "sizes": '[1, "a"]'}),
        "input/data/code/train.py": SCRIPT,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def test_its_processes_start_under_our_launcher(root: Path) -> None:
    note, warning = model_trainer.adapt(root, ["127.0.0.1", "127.0.0.2"], is_rewritten=False)
    assert note == "note: --bind-to none of mpi_additional_options is left out."
    assert warning.startswith("warning: train.py, line 1: --flag has type=bool")
    drivers = root / "input/data/sm_drivers/distributed_drivers"
    for kind, launcher in (("mpi", "mpirun"), ("torchrun", "torchrun")):
        found: dict[str, object] = {}
        exec((drivers / f"{kind}_driver.py").read_text().partition("os.execve")[0], found)
        command, variables = found["command"], found["variables"]
        assert isinstance(command, list)
        assert command[:3] == [sys.executable, "-P", "-m"]
        assert command[4:] == [
            *(f"--launcher={launcher}", "--processes=2", "--script", "train.py"),
            *("--flag", "true", "--sizes", '[1, "a"]'),
        ]
        assert variables == {"NAME": "value", "DRIVETRAIN_FAILURE_FILE": "/opt/ml/output/failure"}
    assert (drivers / "own_driver.py").read_text() == "theirs\n"


def test_nothing_is_installed_and_hosts_meet_where_they_are(root: Path) -> None:
    model_trainer.adapt(root, ["127.0.0.1"], is_rewritten=False)
    drivers = root / "input/data/sm_drivers"
    run = [sys.executable, "-S"]
    said = subprocess.check_output([*run, drivers / "scripts/install_requirements.py", "requirements.txt"], text=True)
    assert said.startswith("note: requirements are not installed locally")
    met = subprocess.check_output([*run, drivers / "scripts/environment.py"], env={"DRIVETRAIN_PORT": "4711"})
    assert met == b"127.0.0.1 4711\n"
    start = (drivers / "sm_train.sh").read_text()
    assert "PIP" not in start and ">> /dev/null" in start and "source /opt/ml/input/sm_training.env" in start


def test_without_a_mount_every_path_is_rewritten(root: Path) -> None:
    drivers = root / "input/data/sm_drivers"
    (drivers / "latin.py").write_bytes(b"# \xe9\nprint('/opt/ml/model')\n")
    model_trainer.adapt(root, ["127.0.0.1"], is_rewritten=True)
    assert (drivers / "latin.py").read_bytes() == f"# \udce9\nprint('{root}/model')\n".encode(errors="surrogateescape")
    assert f"source {root}/input/sm_training.env" in (drivers / "sm_train.sh").read_text()
    assert f"{root}/output/failure" in (drivers / "distributed_drivers/mpi_driver.py").read_text()


@pytest.mark.parametrize("left_out", ["sm_train.sh", "sourcecode.json", "distributed.json", "scripts/environment.py"])
def test_missing_files_are_left_to_the_job(root: Path, left_out: str) -> None:
    (root / "input/data/sm_drivers" / left_out).unlink()
    model_trainer.adapt(root, ["127.0.0.1"], is_rewritten=False)
    assert not (root / "input/data/sm_drivers" / left_out).exists()


def test_odd_numbers_of_processes_are_refused(root: Path) -> None:
    (root / "input/data/sm_drivers/distributed.json").write_text(json.dumps({"process_count_per_node": {"Get": "x"}}))
    with pytest.raises(UserError, match=r"process_count_per_node is \{'Get': 'x'\}\. Allowed: a whole number"):
        model_trainer.adapt(root, ["127.0.0.1"], is_rewritten=False)
