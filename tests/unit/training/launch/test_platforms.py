"""Each platform's contract, from samples as the platforms give them, and which one decides."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.launch.cluster import Cluster, read_cluster


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cluster", "platforms.kubeflow"):
        monkeypatch.setattr(f"drivetrain.training.launch.{module}.num_gpus", lambda environment: 0)


# A training job's /opt/ml/input/config/resourceconfig.json, on two hosts.
RESOURCES = {
    "current_group_name": "homogeneousCluster",
    "current_host": "algo-2",
    "current_instance_type": "ml.g5.12xlarge",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [
        {
            "hosts": ["algo-1", "algo-2"],
            "instance_group_name": "homogeneousCluster",
            "instance_type": "ml.g5.12xlarge",
        }
    ],
    "network_interface_name": "eth0",
    "topology": None,
}
# What the training toolkit makes of it.
TOOLKIT = {
    "SM_HOSTS": '["algo-1","algo-2"]',
    "SM_CURRENT_HOST": "algo-2",
    "SM_NUM_GPUS": "4",
    "SM_NETWORK_INTERFACE_NAME": "eth0",
    "SM_RESOURCE_CONFIG": json.dumps(RESOURCES),
    "TRAINING_JOB_NAME": "job-7",
}
# A pod of a TrainJob "faces" with numNodes: 2 and numProcPerNode: 4.
TRAINER = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "4",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "faces-node-0-0.faces",
    "PET_MASTER_PORT": "29400",
    "JOB_COMPLETION_INDEX": "1",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "HOSTNAME": "faces-node-0-1-x7k2p",
}


def write_resources(base: Path, content: Any = RESOURCES, folder: str = "input/config") -> None:
    (base / folder).mkdir(parents=True)
    (base / folder / "resourceconfig.json").write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize("folder", ["input/config", "config"])
def test_sagemakers_file(folder: str, tmp_path: Path) -> None:
    write_resources(tmp_path, folder=folder)
    contract = str(tmp_path / folder / "resourceconfig.json")
    wanted = Cluster(("algo-1", "algo-2"), 1, 1, interface="eth0", contract=contract)
    assert read_cluster({}, base=tmp_path) == wanted
    assert read_cluster({"SAGEMAKER_BASE_DIR": str(tmp_path)}) == wanted


def test_sagemakers_variables(tmp_path: Path) -> None:
    found = read_cluster(TOOLKIT, base=tmp_path)
    assert found == Cluster(("algo-1", "algo-2"), 1, 4, interface="eth0", job="job-7", contract="SM_HOSTS")


def test_the_groups_of_a_heterogeneous_cluster_that_train(tmp_path: Path) -> None:
    groups = [
        {"instance_group_name": "cpu", "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "gpu", "instance_type": "ml.g5.xlarge", "hosts": ["algo-2", "algo-3"]},
    ]
    write_resources(
        tmp_path,
        {**RESOURCES, "hosts": ["algo-1", "algo-2", "algo-3"], "current_host": "algo-3", "instance_groups": groups},
    )
    name = "SM_DISTRIBUTION_INSTANCE_GROUPS"
    found = read_cluster({name: '["gpu"]'}, base=tmp_path)
    assert (found.hosts, found.host) == (("algo-2", "algo-3"), "algo-3")
    assert len(read_cluster({}, base=tmp_path).hosts) == 3
    with pytest.raises(InputError, match="names 'gpus'; the cluster's groups are cpu, gpu"):
        read_cluster({name: '["gpus"]'}, base=tmp_path)
    with pytest.raises(InputError, match="algo-3 trains nothing: SM_DISTRIBUTION_INSTANCE_GROUPS names cpu"):
        read_cluster({name: '["cpu"]'}, base=tmp_path)


def test_kubeflow_trainer() -> None:
    assert read_cluster(TRAINER) == Cluster(
        ("faces-node-0-0.faces", "faces-node-0-1.faces"), 1, 4, 29400, contract="PET_* (Kubeflow Trainer)"
    )
    assert read_cluster({**TRAINER, "PET_NODE_RANK": ""}).host_index == 1  # the index of the pod


def test_kubeflow_on_one_node() -> None:
    found = read_cluster({"PET_NNODES": "1", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "faces-node-0-0.faces"})
    assert (found.hosts, found.processes) == (("127.0.0.1",), 2)


def test_pytorchjob_with_a_range_of_workers() -> None:
    found = read_cluster(
        {
            "PET_NNODES": "1:3",
            "PET_NPROC_PER_NODE": "auto",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": "faces-master-0:23456",
            "PET_RDZV_ID": "faces",
            "PET_NODE_RANK": "2",
        }
    )
    assert found.hosts == ("faces-master-0", "faces-worker-0", "faces-worker-1")
    assert (found.port, found.min_hosts, found.processes, found.job) == (23456, 1, 1, "faces")
    assert found.is_elastic


def test_one_process_per_core_only_on_request() -> None:
    cores = len(os.sched_getaffinity(0))
    assert read_cluster({**TRAINER, "PET_NPROC_PER_NODE": "cpu"}).processes == cores
    assert read_cluster({**TRAINER, "PET_NPROC_PER_NODE": "auto"}).processes == 1


def test_the_chosen_platform(tmp_path: Path) -> None:
    write_resources(tmp_path)
    everything = {**TOOLKIT, **TRAINER, "DRIVETRAIN_HOSTS": "x,y", "DRIVETRAIN_HOST": "x"}
    assert read_cluster(everything, base=tmp_path).contract == "DRIVETRAIN_HOSTS"
    del everything["DRIVETRAIN_HOSTS"]
    assert read_cluster(everything, base=tmp_path).contract == "PET_* (Kubeflow Trainer)"
    del everything["PET_NNODES"]
    assert read_cluster(everything, base=tmp_path).contract == "SM_HOSTS"
    del everything["SM_HOSTS"]
    assert read_cluster(everything, base=tmp_path).contract.endswith("resourceconfig.json")
    assert read_cluster(everything, base=tmp_path / "none").contract == "a plain shell"


def test_user_settings_override_the_platform(tmp_path: Path) -> None:
    mine = {"DRIVETRAIN_PROCESSES": "3", "DRIVETRAIN_PORT": "1111", "DRIVETRAIN_NETWORK_INTERFACE": "ib0"}
    found = read_cluster({**TRAINER, **mine}, base=tmp_path)
    assert (found.processes, found.port, found.interface) == (3, 1111, "ib0")
    found = read_cluster({**TRAINER, **mine}, base=tmp_path, processes=5, port=2222, interface="ib1")
    assert (found.processes, found.port, found.interface) == (5, 2222, "ib1")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SM_HOSTS": "algo-1"}, "SM_HOSTS='algo-1' is no JSON list"),
        ({"SM_HOSTS": '["a","b"]'}, r"SM_CURRENT_HOST='' is not one of SM_HOSTS='a,b'"),
        ({"SM_HOSTS": '["a"]', "SM_CURRENT_HOST": "a", "SM_NUM_GPUS": "four"}, "SM_NUM_GPUS='four'; allowed are"),
        ({**TRAINER, "PET_NNODES": "two"}, "PET_NNODES='two'; allowed are a number of hosts from 1, or MIN:MAX"),
        ({**TRAINER, "PET_NODE_RANK": "2"}, "PET_NODE_RANK='2'; allowed are whole numbers below PET_NNODES=2"),
        ({**TRAINER, "PET_NPROC_PER_NODE": "gpu"}, "PET_NPROC_PER_NODE='gpu', but this host has no GPU"),
        ({**TRAINER, "PET_NPROC_PER_NODE": "many"}, "PET_NPROC_PER_NODE='many'; allowed are auto, cpu, gpu"),
        ({**TRAINER, "PET_MASTER_PORT": "http"}, "PET_MASTER_PORT='http'; allowed are ports"),
        ({**TRAINER, "PET_MASTER_ADDR": ""}, "neither PET_MASTER_ADDR nor PET_RDZV_ENDPOINT is set"),
    ],
)
def test_contracts_that_cannot_be(environment: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_cluster(environment, base=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot read .*resourceconfig.json"),
        ("[]", "resourceconfig.json holds no JSON object"),
        ({"current_host": "algo-1"}, "the field 'hosts' is None, not a list"),
        ({"hosts": ["algo-1"]}, "the field 'current_host' is None, not a str"),
        ({"hosts": ["algo-1"], "current_host": "algo-3"}, "current_host='algo-3' is not one of"),
    ],
)
def test_a_file_that_cannot_be(content: Any, message: str, tmp_path: Path) -> None:
    write_resources(tmp_path, content)
    with pytest.raises(InputError, match=message):
        read_cluster({}, base=tmp_path)


@pytest.mark.parametrize("name", plugins.names("platforms"))
def test_every_platform_has_its_place_in_the_order(name: str, tmp_path: Path) -> None:
    orders = {other: plugins.load("platforms", other, kind="platform").ORDER for other in plugins.names("platforms")}
    assert len(set(orders.values())) == len(orders)
    module = plugins.load("platforms", name, kind="platform")
    assert module.SUMMARY
    if name != "shell":
        assert module.read({}, tmp_path) is None
