"""One script, unchanged, through the drivers of the SDK's ModelTrainer and through train_script: it is told the same.

make test-in ENV=sdk
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.processes.container import Cluster, lay_out_training

pytestmark = pytest.mark.sdk

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs" / "sdk" / "bin" / "python"
SCRIPT = ROOT / "tests" / "fixtures" / "own_scripts" / "report.py"
VALUES = {
    "plain": {"epochs": 3, "lr": 9e-05, "batch-size": 64, "x": "one letter"},
    "types": {"flag": True, "off": False, "nothing": None, "sizes": [1, "a", None], "map": {"b": 1, "a": [2]}},
    "text": {"text": "é ✓ a b; $HOME", "json": '{"a": 1}', "number": "3", "dotted": "1.50", "empty": ""},
}
# The drivers' own channels, and the first host's name (drivetrain/steps/trainer_mode.py).
DIFFERENT = {"SM_DISTRIBUTED_DRIVER_DIR", "SM_MASTER_ADDR", "SM_TRAINING_ENV", "SM_CHECKPOINT_DIR"}


def lay_out(base: Path, values: dict[str, Any]) -> None:
    """As the service does it for the request of ModelTrainer, which writes values by `safe_serialize`."""
    lay_out_training(
        base,
        Cluster(("127.0.0.1",), "ml.m5.xlarge"),
        "127.0.0.1",
        hyperparameters={
            name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
        },
        input_data_config=[{"ChannelName": "train", "ContentType": "text/csv"}],
    )
    for channel in ("train", "code"):
        (base / "input" / "data" / channel).mkdir()
    (base / "input" / "data" / "train" / "train.csv").write_text("1\n")
    shutil.copy(SCRIPT, base / "input" / "data" / "code" / "report.py")


def environment(base: Path) -> dict[str, str]:
    return {"HOME": str(base), "PATH": os.environ["PATH"], "TRAINING_JOB_NAME": "job-1"}


def through_the_drivers(base: Path, distributed: dict[str, Any]) -> dict[str, Any]:
    """sm_train.sh without its shell functions; the drivers' files name /opt/ml, here `base`."""
    where = "import sagemaker.train as m; print(list(m.__path__)[0])"
    package = subprocess.run([PYTHON, "-c", where], capture_output=True, text=True, check=True).stdout.split()[-1]
    drivers = base / "input" / "data" / "sm_drivers"
    shutil.copytree(Path(package) / "container_drivers", drivers)
    for path in drivers.rglob("*.py"):
        path.write_text(path.read_text().replace("/opt/ml", str(base)))
    (drivers / "sourcecode.json").write_text(json.dumps({"entry_script": "report.py"}))
    (drivers / "distributed.json").write_text(json.dumps(distributed))
    commands = f"""
        set -e
        {sys.executable} {drivers}/scripts/environment.py > {base}/log
        set -a; . {base}/input/sm_training.env; set +a
        cd {base}/input/data/code
        {sys.executable} {drivers}/distributed_drivers/basic_script_driver.py
    """
    return finish(base, ["/bin/bash", "-c", commands])


def through_train_script(base: Path, values: dict[str, Any], launcher: str) -> dict[str, Any]:
    data = base / "input" / "data"
    folders = {"train": data / "train", "source": data / "code", "model": base / "model"}
    folders |= {"output": base / "output" / "data", "checkpoints": base / "checkpoints"}
    command = [sys.executable, "-m", "drivetrain.components.train_script", "--script=report.py", "--processes=1"]
    words = [f"--launcher={launcher}", "--contract=model_trainer", f"--hyperparameters={json.dumps(values)}"]
    given = {"SAGEMAKER_BASE_DIR": str(base), "DRIVETRAIN_HOSTS": "127.0.0.1", "DRIVETRAIN_NETWORK_INTERFACE": "lo"}
    return finish(base, [*command, *words, *(f"--{name}={folder}" for name, folder in folders.items())], given)


def finish(base: Path, command: list[str], more: dict[str, str] | None = None) -> dict[str, Any]:
    given = {**environment(base), **(more or {})}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((base / "output" / "data" / "rank0.json").read_text())


def told(found: dict[str, Any], base: Path) -> dict[str, str]:
    return {
        name: value.replace(str(base), "/opt/ml")
        for name, value in found["variables"].items()
        if name.startswith("SM_")
    }


@pytest.mark.parametrize("name", VALUES)
def test_a_script_gets_the_same_arguments_and_variables(name: str, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for base in (theirs, ours):
        lay_out(base, VALUES[name])
    expected, actual = through_the_drivers(theirs, {}), through_train_script(ours, VALUES[name], "python")
    assert actual["argv"] == expected["argv"]
    assert actual["cwd"].replace(str(ours), "") == expected["cwd"].replace(str(theirs), "")
    wanted, found = told(expected, theirs), told(actual, ours)
    their_env, our_env = json.loads(wanted["SM_TRAINING_ENV"]), json.loads(found["SM_TRAINING_ENV"])
    assert (their_env.pop("master_addr"), our_env.pop("master_addr")) == ("algo-1", "127.0.0.1")
    assert our_env == their_env
    assert {name: found[name] for name in found if name not in DIFFERENT} == {
        name: wanted[name] for name in wanted if name not in DIFFERENT
    }
    assert len(found) > 25


def test_the_sdk_drivers_get_the_same_number_of_processes(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for base in (theirs, ours):
        lay_out(base, {})
    expected = told(through_the_drivers(theirs, {"process_count_per_node": 1}), theirs)
    actual = told(through_train_script(ours, {}, "torchrun"), ours)
    assert json.loads(actual["SM_DISTRIBUTED_CONFIG"]) == json.loads(expected["SM_DISTRIBUTED_CONFIG"])
