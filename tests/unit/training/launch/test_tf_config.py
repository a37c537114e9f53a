from __future__ import annotations

import json

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.tf_config import (
    addresses_of,
    filled,
    read_roles,
    refuse_another_cluster,
    tf_config,
    with_processes,
)


def parts_of(cluster: Cluster, roles: str = "") -> list[dict[str, object]]:
    addresses = addresses_of(cluster)
    return [json.loads(tf_config(addresses, rank, read_roles(roles))) for rank in range(len(addresses))]


def test_one_worker_a_host() -> None:
    assert parts_of(Cluster(("algo-1", "algo-2"), 1, 1, port=2222))[1] == {
        "cluster": {"worker": ["algo-1:2222", "algo-2:2222"]},
        "environment": "cloud",
        "task": {"type": "worker", "index": 1},
    }


def test_several_workers_a_host_have_ports_of_their_own() -> None:
    parts = parts_of(Cluster(("a", "b"), 0, 2, port=100))
    assert all(part["cluster"] == {"worker": ["a:100", "a:101", "b:100", "b:101"]} for part in parts)
    assert [part["task"] for part in parts] == [{"type": "worker", "index": index} for index in range(4)]


def test_each_process_has_its_role_and_an_evaluator_is_not_of_the_cluster() -> None:
    parts = parts_of(Cluster(("a", "b", "c", "d", "e"), port=100), "ps=1,worker=2,chief=1,evaluator=1")
    cluster = {"chief": ["a:100"], "worker": ["b:100", "c:100"], "ps": ["d:100"]}
    assert all(part["cluster"] == cluster for part in parts)
    roles = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)]
    assert [part["task"] for part in parts] == [{"type": role, "index": index} for role, index in roles]


def test_roles_say_how_many_processes_there_are() -> None:
    roles = read_roles("chief=1,worker=2,ps=1")
    assert with_processes(Cluster(), roles, 0).processes == 4
    assert with_processes(Cluster(("a", "b"), processes=2), roles, 2).processes == 2
    assert with_processes(Cluster(processes=3), {}, 3).processes == 3


def test_workers_may_be_the_rest() -> None:
    roles = read_roles("chief=1,worker=*,ps=1")
    assert filled(roles, 5) == {"chief": 1, "worker": 3, "ps": 1}
    assert with_processes(Cluster(("a", "b"), processes=3), roles, 0).processes == 3
    with pytest.raises(InputError, match=r"2 processes leave no worker beside chief, ps. Start 3 or more."):
        filled(roles, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chief", r"roles='chief'; allowed are chief, worker, ps, evaluator, each once and with a number from 1"),
        ("master=1,worker=1", "allowed are chief, worker, ps, evaluator"),
        ("worker=0", "each once and with a number from 1"),
        ("worker=1,worker=2", "each once"),
        ("chief=1,ps=1", r"has no worker, and nobody would compute. Example: chief=1,worker=2,ps=1"),
        ("worker=2,ps=1", r"has parameter servers and no chief to hand out the steps. Add chief=1."),
        ("chief=2,worker=1", "TensorFlow knows one chief at most. Give chief=1, or leave it out."),
    ],
)
def test_roles_that_make_no_cluster(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_roles(text)


def test_another_cluster_is_refused() -> None:
    given = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    with pytest.raises(InputError, match=r"names 2 processes, and this launcher starts 1 .* remove TF_CONFIG"):
        refuse_another_cluster({"TF_CONFIG": json.dumps(given)}, 1)
    for text in (json.dumps(given), "", "{}", '{"cluster": 3}', "[", "[1]"):
        refuse_another_cluster({"TF_CONFIG": text}, 2)


def test_invalid_contracts_are_refused() -> None:
    roles = read_roles("chief=1,worker=2,ps=1")
    with pytest.raises(
        InputError, match=r"are 4 processes, and the job has 1 host x 3 processes. Give roles whose sum"
    ):
        with_processes(Cluster(), roles, 3)
    with pytest.raises(InputError, match="the job has 3 hosts"):
        with_processes(Cluster(("a", "b", "c")), roles, 0)
    with pytest.raises(InputError, match="Leave the range of hosts out"):
        with_processes(Cluster(("a", "b"), min_hosts=1), roles, 0)
    with pytest.raises(InputError, match="the last port would be above 65535"):
        addresses_of(Cluster(processes=3, port=65534))
