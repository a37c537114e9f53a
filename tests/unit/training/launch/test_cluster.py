from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster, num_gpus, read_cluster
from drivetrain.training.launch.environment import defaults_of, process_environment


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.training.launch.cluster.num_gpus", lambda environment: 0)


def test_a_plain_shell_is_one_host_with_one_process() -> None:
    cluster = read_cluster({})
    assert cluster == Cluster(hosts=("127.0.0.1",), host_index=0, processes=1)
    assert cluster.world_size == 1


def test_two_hosts() -> None:
    cluster = read_cluster(
        {
            "DRIVETRAIN_HOSTS": "algo-1, algo-2",
            "DRIVETRAIN_HOST": "algo-2",
            "DRIVETRAIN_PROCESSES": "4",
            "DRIVETRAIN_PORT": "12345",
            "DRIVETRAIN_NETWORK_INTERFACE": "eth0",
        }
    )
    assert cluster == Cluster(("algo-1", "algo-2"), 1, 4, 12345, "eth0", contract="DRIVETRAIN_HOSTS")
    assert cluster.world_size == 8
    assert cluster.host == "algo-2"


def test_the_parameter_comes_before_the_variable() -> None:
    assert read_cluster({"DRIVETRAIN_PROCESSES": "4"}, processes=2).processes == 2
    # 0 says nothing, in either place.
    assert read_cluster({"DRIVETRAIN_PROCESSES": "4"}, processes=0).processes == 4
    assert read_cluster({"DRIVETRAIN_PROCESSES": "0"}) == read_cluster({})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"DRIVETRAIN_HOSTS": "a,b"}, r"DRIVETRAIN_HOST='' is not one of DRIVETRAIN_HOSTS='a,b'"),
        ({"DRIVETRAIN_HOSTS": "a,b", "DRIVETRAIN_HOST": "c"}, "DRIVETRAIN_HOST='c' is not one of"),
        ({"DRIVETRAIN_HOSTS": "a,a", "DRIVETRAIN_HOST": "a"}, "allowed are different host names"),
        ({"DRIVETRAIN_HOSTS": "a,,b", "DRIVETRAIN_HOST": "a"}, "allowed are different host names"),
        ({"DRIVETRAIN_PROCESSES": "two"}, "DRIVETRAIN_PROCESSES='two'; allowed are whole numbers from 1"),
        ({"DRIVETRAIN_PROCESSES": "-1"}, "DRIVETRAIN_PROCESSES='-1'"),
        ({"DRIVETRAIN_PORT": "-1"}, "DRIVETRAIN_PORT='-1'"),
        ({"DRIVETRAIN_PORT": "65536"}, "DRIVETRAIN_PORT=65536; allowed are ports from 1 to 65535"),
        ({"DRIVETRAIN_NODES": "2:1"}, "DRIVETRAIN_NODES='2:1'; allowed are a number of hosts"),
        ({"DRIVETRAIN_NODES": "1:3"}, r"DRIVETRAIN_NODES='1:3', but a plain shell names 1 host \(127.0.0.1\)"),
    ],
)
def test_invalid_contracts_are_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_cluster(environment)


def test_a_negative_number_of_processes() -> None:
    with pytest.raises(InputError, match="processes=-2; allowed are whole numbers from 1, or 0"):
        read_cluster({}, processes=-2)


def test_a_process_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.training.launch.cluster.num_gpus", lambda environment: 4)
    assert read_cluster({}).processes == 4
    assert read_cluster({}, processes=3).processes == 3
    with pytest.raises(InputError, match="5 processes, but this host has 4 GPUs"):
        read_cluster({}, processes=5)


def test_gpus_are_counted_from_their_devices(tmp_path: Path) -> None:
    assert num_gpus({}, tmp_path) == 0
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert num_gpus({}, tmp_path) == 3
    assert num_gpus({"CUDA_VISIBLE_DEVICES": "0,2"}, tmp_path) == 2
    assert num_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == 0
    assert num_gpus({"CUDA_VISIBLE_DEVICES": "-1"}, tmp_path) == 0


def test_a_range_of_hosts() -> None:
    hosts = {"DRIVETRAIN_HOSTS": "a,b,c", "DRIVETRAIN_HOST": "b"}
    cluster = read_cluster({**hosts, "DRIVETRAIN_NODES": "2:3"})
    assert (cluster.min_hosts, cluster.is_elastic) == (2, True)
    assert not read_cluster(hosts, nodes="3").is_elastic
    assert read_cluster({**hosts, "DRIVETRAIN_NODES": "2:3"}, nodes="1:3").min_hosts == 1


def test_cores_are_shared_out_and_the_users_settings_stay() -> None:
    cores = len(os.sched_getaffinity(0))
    assert process_environment(Cluster(processes=cores), {})["OMP_NUM_THREADS"] == "1"
    assert process_environment(Cluster(processes=1), {})["OMP_NUM_THREADS"] == str(cores)
    assert process_environment(Cluster(processes=100 * cores), {})["OMP_NUM_THREADS"] == "1"
    assert process_environment(Cluster(), {"OMP_NUM_THREADS": "7"})["OMP_NUM_THREADS"] == "7"
    assert process_environment(Cluster(), {})["GOMP_SPINCOUNT"] == "10000"  # nor do they spin for long


def test_the_interface_is_told_to_gloo_and_nccl() -> None:
    assert "GLOO_SOCKET_IFNAME" not in process_environment(Cluster(), {})
    environment = process_environment(Cluster(hosts=("a", "b")), {"NCCL_SOCKET_IFNAME": "ib0"}, interface="eth0")
    assert environment["GLOO_SOCKET_IFNAME"] == "eth0"
    assert environment["NCCL_SOCKET_IFNAME"] == "ib0"  # the user's
    assert process_environment(Cluster(), {}, interface="lo")["NCCL_SOCKET_IFNAME"] == "=lo"


def test_torchruns_own_variables_do_not_contradict_its_options() -> None:
    kept = process_environment(Cluster(), {"PET_RDZV_BACKEND": "etcd", "PET_NNODES": "4", "PETS": "2"})
    assert [name for name in kept if name.startswith("PET")] == ["PETS"]


def test_every_variable_has_its_reason() -> None:
    found = defaults_of(Cluster(hosts=("a", "b")), "lo", 4)
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in found
    assert all(value and len(reason) > 20 for value, reason in found.values())
