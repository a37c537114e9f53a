"""One script, unchanged, through the real training toolkit and through train_script: it must not be able to tell.

make test-in ENV=toolkit
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.processes.container import Cluster, lay_out_training
from drivetrain.steps.script_mode import is_entry_point
from drivetrain.training.launch.cluster import Cluster as LaunchCluster
from drivetrain.training.launch.tf_config import addresses_of, tf_config

ROOT = Path(__file__).parents[2]
TOOLKIT = ROOT / ".venvs" / "toolkit"
FIXTURES = ROOT / "tests" / "fixtures" / "own_scripts"
FRAMEWORK = ""  # the container's own module
CHANNELS = ("train", "validation")

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "none": {},
    "plain": {"epochs": 3, "lr": 9e-05, "batch-size": 64, "x": "one letter"},
    "types": {"flag": True, "off": False, "nothing": None, "sizes": [1, "a", None], "map": {"b": 1, "a": [2]}},
    "text": {"text": "é ✓ a b; $HOME 'q' \"d\"", "json": '{"a": 1}', "number": "3", "empty": ""},
}


def lay_out(base: Path, script: str, hyperparameters: dict[str, Any], *, hosts: int) -> None:
    """What the platform has put there when the container starts. The SDK writes every value as JSON."""
    names = tuple(f"127.0.0.{number + 1}" for number in range(hosts))
    described = [{"ChannelName": name, "ContentType": "text/csv"} for name in CHANNELS]
    encoded = {name: json.dumps(value) for name, value in hyperparameters.items()}
    lay_out_training(
        base,
        Cluster(names, "ml.m5.xlarge"),
        names[-1],
        hyperparameters={
            "sagemaker_program": json.dumps(script),
            "sagemaker_job_name": '"job-1"',
            "sagemaker_region": '"eu-west-1"',
            **encoded,
        },
        input_data_config=described,
    )
    for name in CHANNELS:
        folder = base / "input" / "data" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.csv").write_text("1\n")
    shutil.copytree(FIXTURES, base / "code", dirs_exist_ok=True)
    (base / "code" / "nested").mkdir()
    shutil.copy(FIXTURES / "report.py", base / "code" / "nested" / "report.py")


def environment(base: Path) -> dict[str, str]:
    return {
        "HOME": str(base.parent),
        "PATH": os.environ["PATH"],
        "SAGEMAKER_BASE_DIR": str(base),
        "TRAINING_JOB_NAME": "job-1",
        "SAGEMAKER_TRAINING_MODULE": FRAMEWORK,
        "AWS_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def through_the_toolkit(base: Path) -> dict[str, Any]:
    given = environment(base)
    given["PATH"] = f"{TOOLKIT / 'bin'}:{given['PATH']}"
    return finish(base, [str(TOOLKIT / "bin" / "train")], given)


def through_train_script(base: Path, script: str, hyperparameters: dict[str, Any]) -> dict[str, Any]:
    data = base / "input" / "data"
    folders = {
        **{name: data / name for name in CHANNELS},
        **{"source": base / "code", "model": base / "model"},
        **{"output": base / "output" / "data", "checkpoints": base / "checkpoints"},
    }
    command = [sys.executable, "-m", "drivetrain.components.train_script", f"--script={script}", "--launcher=python"]
    words = [f"--{name}={folder}" for name, folder in folders.items()]
    hosts = json.loads((base / "input" / "config" / "resourceconfig.json").read_text())
    given = {  # as start.py gives it
        **environment(base),
        "DRIVETRAIN_HOSTS": ",".join(hosts["hosts"]),
        "DRIVETRAIN_HOST": hosts["current_host"],
        "DRIVETRAIN_NETWORK_INTERFACE": hosts["network_interface_name"],
    }
    return finish(base, [*command, *words, f"--hyperparameters={json.dumps(hyperparameters)}"], given)


def finish(base: Path, command: list[str], given: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((base / "output" / "data" / "rank0.json").read_text())


@pytest.mark.toolkit
@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("script", ["report.py", "nested/report.py"])
@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_a_script_gets_the_same_arguments_and_variables(name: str, script: str, hosts: int, tmp_path: Path) -> None:
    given = HYPERPARAMETERS[name]
    theirs, ours = tmp_path / "theirs" / "ml", tmp_path / "ours" / "ml"
    for base in (theirs, ours):
        lay_out(base, script, given, hosts=hosts)
    expected = through_the_toolkit(theirs)
    actual = through_train_script(ours, script, given)

    def here(text: str) -> str:
        return text.replace(str(theirs), str(ours))

    assert actual["argv"] == expected["argv"] == [script, *actual["argv"][1:]]
    assert actual["cwd"] == here(expected["cwd"])
    assert actual["file"] == here(expected["file"])
    assert (actual["name"], actual["main"]) == ("__main__", True)
    assert actual["path"][0] == here(expected["path"][0])
    assert str(ours / "code") in actual["variables"]["PYTHONPATH"].split(":")
    assert str(theirs / "code") in expected["variables"]["PYTHONPATH"].split(":")

    wanted = {name: here(value) for name, value in expected["variables"].items() if is_compared(name)}
    found = {name: value for name, value in actual["variables"].items() if is_compared(name)}
    # The one that the toolkit does not have: a folder of this training's own, below the one that the service keeps.
    own = Path(found.pop("SM_CHECKPOINT_DIR"))
    assert own.parent == ours / "checkpoints"
    assert re.fullmatch("[0-9a-f]{32}", own.name)
    assert found == wanted
    assert len(found) > 35 + len(given)
    group = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS"}
    assert group & set(actual["variables"]) == group & set(expected["variables"]) == set()


@pytest.mark.toolkit
def test_processes_use_the_rendezvous_of_the_pytorch_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the second of two hosts. The container of TensorFlow tells plain Python nothing (TF_CONFIG is for its own
    distributions), and mpirun's variables are mpirun's."""
    monkeypatch.setitem(globals(), "FRAMEWORK", "sagemaker_pytorch_container.training:main")
    theirs, ours = tmp_path / "theirs" / "ml", tmp_path / "ours" / "ml"
    for base in (theirs, ours):
        lay_out(base, "report.py", {}, hosts=2)
    expected, actual = through_the_toolkit(theirs), through_train_script(ours, "report.py", {})
    group = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TF_CONFIG")
    found = {name: actual["variables"].get(name) for name in group}
    assert found == {name: expected["variables"].get(name) for name in group}
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "7777")
    assert {name for name in expected["variables"] if name.startswith(("NCCL_", "MASTER_"))} - set(
        actual["variables"]
    ) <= {"NCCL_DEBUG", "NCCL_IB_DISABLE"}, "switched off there for machines without EFA; here as the machine is"


@pytest.mark.toolkit
@pytest.mark.parametrize("hosts", [1, 3])
def test_tf_config_is_that_of_the_tensorflow_container(hosts: int) -> None:
    """Of multi_worker_mirrored_strategy. (TensorFlow itself, which its module imports, is not needed for it.)"""
    names = [f"algo-{number + 1}" for number in range(hosts)]
    code = (
        "import json, sys, types; sys.modules['tensorflow'] = types.ModuleType('tensorflow')\n"
        "from sagemaker_tensorflow_container.training import _build_tf_config_for_mwms as build\n"
        f"print(json.dumps([build({names}, name) for name in {names}]))"
    )
    done = subprocess.run([TOOLKIT / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)
    cluster = LaunchCluster(tuple(names), port=8890)
    ours = [json.loads(tf_config(addresses_of(cluster), rank, {})) for rank in range(hosts)]
    assert ours == theirs


def is_compared(variable: str) -> bool:
    return variable.startswith(("SM_", "SAGEMAKER_")) or variable in ("CURRENT_HOST", "TRAINING_JOB_NAME")


@pytest.mark.toolkit
def test_the_same_names_are_entry_points() -> None:
    names = [
        "train.py",
        "a/b.py",
        "run",
        "-c",
        "/a",
        "../a",
        "a/../b",
        "./a",
        "a b",
        "a;b",
        "a/",
        ".hidden",
        "a//b",
        "é",
    ]
    code = """
import json, sys
from sagemaker_training import errors, process
def fine(name):
    try:
        process.validate_entry_point(name)
    except errors.ClientError:
        return False
    return True
print(json.dumps([fine(name) for name in json.loads(sys.argv[1])]))
"""
    done = subprocess.run(
        [str(TOOLKIT / "bin" / "python"), "-c", code, json.dumps(names)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [is_entry_point(name) for name in names]
