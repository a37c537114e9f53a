"""The toolkit's rules, as far as they can be said without it; tests/contract holds them against the toolkit itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.steps.script_mode import ScriptJob, arguments, is_entry_point, opt_ml_folders, variables

RESOURCES = {"hosts": ["algo-1", "algo-2"], "current_host": "algo-2", "current_instance_type": "ml.m5.xlarge"}


def job(**more: Any) -> ScriptJob:
    channels: dict[str, Any] = {"validation": {}, "train": {}}
    values: dict[str, Any] = {
        "resources": RESOURCES,
        "channels": channels,
        "hyperparameters": {"epochs": 3, "lr-max": 0.1, "on": True, "names": ["a"], "text": "x", "none": None},
        "folders": opt_ml_folders("/opt/ml", channels),
        "program": "src/train.py",
        "module_dir": "/opt/ml/code",
    }
    return ScriptJob(**{**values, **more})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, []),
        ({"b": 1, "a": "x y"}, ["-a", "x y", "-b", "1"]),
        ({"epochs": 3, "lr": 1e-05}, ["--epochs", "3", "--lr", "1e-05"]),
        ({"flag": True, "off": False, "none": None}, ["--flag", "True", "--none", "", "--off", "False"]),
        ({"sizes": [1, "x"], "map": {"z": 1, "a": None}}, ["--map", "a=None,z=1", "--sizes", "[1, 'x']"]),
    ],
)
def test_arguments(given: dict[str, Any], words: list[str]) -> None:
    assert arguments(given) == words


@pytest.mark.parametrize(
    ("program", "fine"),
    [("train.py", True), ("a/b-c+d.sh", True), (".hidden", True)]
    + [(bad, False) for bad in ("", "/a", "-a", "a b", "../a", "a/./b", "a;b", "a/", None)],
)
def test_entry_points(program: Any, fine: bool) -> None:
    assert is_entry_point(program) is fine


def test_variables() -> None:
    found = variables(job(), {"PATH": "/nowhere"})
    assert found["SM_HOSTS"] == '["algo-1","algo-2"]'
    assert found["SM_CURRENT_HOST"] == found["CURRENT_HOST"] == "algo-2"
    assert found["SM_CHANNELS"] == '["train","validation"]'
    assert found["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert found["SM_MODEL_DIR"] == "/opt/ml/model"
    assert found["SM_OUTPUT_DATA_DIR"] == "/opt/ml/output/data"
    assert found["SM_MODULE_NAME"] == "src/train"
    assert found["SM_USER_ENTRY_POINT"] == "src/train.py"
    assert found["SM_NUM_GPUS"] == "0"
    assert found["SM_NETWORK_INTERFACE_NAME"] == "eth0"
    assert json.loads(found["SM_HPS"])["names"] == ["a"]
    assert {name: found[f"SM_HP_{name}"] for name in ("EPOCHS", "LR-MAX", "ON", "NAMES", "TEXT", "NONE")} == {
        "EPOCHS": "3", "LR-MAX": "0.1", "ON": "true", "NAMES": '["a"]', "TEXT": "x", "NONE": "",
    }  # fmt: skip
    assert json.loads(found["SM_USER_ARGS"]) == arguments(job().hyperparameters)
    assert json.loads(found["SM_TRAINING_ENV"])["master_hostname"] == "algo-1"
    assert "SM_TOPOLOGY" not in found


def test_accelerators_are_counted_by_their_own_tools(tmp_path: Path) -> None:
    for name, prints in {
        "nvidia-smi": "GPU 0: A\\nGPU 1: B\\nnothing\\n",
        "neuron-ls": '[{\\"nc_count\\": 2}, {\\"nc_count\\": 4}]',
    }.items():
        (tmp_path / name).write_text(f'#!/bin/sh\nprintf "{prints}"\n')
        (tmp_path / name).chmod(0o755)
    found = variables(job(), {"PATH": str(tmp_path)})
    assert (found["SM_NUM_GPUS"], found["SM_NUM_NEURONS"]) == ("2", "6")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nprintf 'GPU 0: broken'\nexit 9\n")
    assert variables(job(), {"PATH": str(tmp_path)})["SM_NUM_GPUS"] == "0"


def test_a_cluster_of_several_groups() -> None:
    groups = [
        {"instance_group_name": "cpu", "instance_type": "ml.m5.large", "hosts": ["algo-1"]},
        {"instance_group_name": "gpu", "instance_type": "ml.g5.xlarge", "hosts": ["algo-2"]},
    ]
    resources = {**RESOURCES, "current_group_name": "gpu", "instance_groups": groups}
    found = variables(
        job(resources=resources, framework={"sagemaker_distribution_instance_groups": ["gpu"]}), {"PATH": "/nowhere"}
    )
    assert found["SM_IS_HETERO"] == "true"
    assert found["SM_CURRENT_INSTANCE_GROUP_HOSTS"] == '["algo-2"]'
    assert json.loads(found["SM_TRAINING_ENV"])["is_master"] is True


@pytest.mark.parametrize("hyperparameters", [{"a=b": 1}, {"a": "x\0y"}])
def test_invalid_variable_names_are_refused(hyperparameters: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot become the variable"):
        variables(job(hyperparameters=hyperparameters), {"PATH": "/nowhere"})
