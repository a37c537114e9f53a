"""A cluster that is not whole is refused before TensorFlow waits for it. (TensorFlow is not imported.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.base.ports import held_port
from drivetrain.training.errors import LostRanksError
from drivetrain.training.process import Process
from drivetrain.training.tensorflow import cluster

TWO = {"cluster": {"worker": ["here:1111", "there:2222"]}, "task": {"type": "worker", "index": 0}}


def of_two(**fields: Any) -> Process:
    return Process(**{"rank": 0, "world_size": 2, "local_rank": 0, "local_world_size": 2, "device": None, **fields})


def test_a_worker_that_does_not_come_is_named_with_its_address() -> None:
    with held_port() as port:
        where = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port.getsockname()[1]),
            "TF_CONFIG": json.dumps(TWO),
        }
        with pytest.raises(LostRanksError) as caught:
            cluster.join(of_two(), 0.05, where | {"TF_CONFIG": json.dumps(TWO)})
    assert caught.value.ranks == [1] and caught.value.timed_out
    assert "waiting for rank 1. TF_CONFIG names worker 1 at there:2222, which did not come. Start it, or" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "MASTER_ADDR is not set. Start the processes with launcher=tf_config."),
        ({"TF_CONFIG": "{"}, "TF_CONFIG='{' names no workers. Start the processes"),
        ({"TF_CONFIG": '{"cluster": {"worker": "here:1"}}'}, "names no workers"),
        (
            {"TF_CONFIG": '{"cluster": {"worker": ["here:1"]}}'},
            "TF_CONFIG names 1 worker, and 2 processes were started (WORLD_SIZE). Start the processes with "
            "launcher=tf_config, which names each, or correct TF_CONFIG's cluster.",
        ),
    ],
)
def test_a_cluster_of_another_size(environment: dict[str, str], message: str) -> None:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"} if environment else {}
    with pytest.raises(InputError) as caught:
        cluster.join(of_two(), 0.05, where | environment)
    assert message in str(caught.value)


def test_roles_are_those_of_a_cluster_with_parameter_servers() -> None:
    def role_in(cluster_: str) -> str:
        return cluster.role({"TF_CONFIG": f'{{"cluster": {cluster_}, "task": {{"type": "worker", "index": 0}}}}'})

    assert role_in('{"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}') == "worker"
    assert role_in('{"worker": ["b:1"]}') == cluster.role({"TF_CONFIG": "["}) == cluster.role({}) == ""
