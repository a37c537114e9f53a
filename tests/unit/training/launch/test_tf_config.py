from __future__ import annotations

import json

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.tf_config import tf_config


def test_one_worker_a_host() -> None:
    cluster = Cluster(("algo-1", "algo-2"), 1, 1, port=2222)
    assert json.loads(tf_config(cluster, 0)) == {
        "cluster": {"worker": ["algo-1:2222", "algo-2:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_several_workers_a_host_have_ports_of_their_own() -> None:
    parts = [
        json.loads(tf_config(Cluster(("a", "b"), host, 2, port=100), local)) for host in (0, 1) for local in (0, 1)
    ]
    assert all(part["cluster"] == {"worker": ["a:100", "a:101", "b:100", "b:101"]} for part in parts)
    assert [part["task"]["index"] for part in parts] == [0, 1, 2, 3]


def test_parameter_servers_come_last_and_the_chief_first() -> None:
    parts = [json.loads(tf_config(Cluster(processes=4, port=100), local, parameter_servers=1)) for local in range(4)]
    assert parts[0]["cluster"] == {
        "chief": ["127.0.0.1:100"],
        "worker": ["127.0.0.1:101", "127.0.0.1:102"],
        "ps": ["127.0.0.1:103"],
    }
    tasks = [(part["task"]["type"], part["task"]["index"]) for part in parts]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="parameter_servers=1 of 2 processes leaves no worker"):
        tf_config(Cluster(processes=2), 0, parameter_servers=1)
    with pytest.raises(InputError, match="the last port would be above 65535"):
        tf_config(Cluster(processes=3, port=65534), 0)
