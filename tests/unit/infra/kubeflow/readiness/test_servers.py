"""The object store and the model registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drivetrain.infra.kubeflow.readiness import servers
from drivetrain.infra.kubeflow.readiness.place import UnaskedError
from tests.fixtures.kubeflow_pipelines.server import Cluster, pipelines_api
from tests.fixtures.kubeflow_server import kubeflow_server
from tests.fixtures.s3_server import environment, make_bucket, s3_server, variables
from tests.fixtures.weed import weed_server


@pytest.mark.parametrize(
    "server", [s3_server, pytest.param(weed_server, marks=pytest.mark.slow)], ids=("moto", "seaweedfs")
)
def test_the_store_is_listed_from_here(found: Any, server: Callable[[], str]) -> None:
    endpoint = server()
    with environment(variables(endpoint)):
        root = f"s3://{make_bucket(endpoint)}/pipelines"
        assert found(servers.object_store, root=root) == [("ok", f"{root} at {endpoint}", "")]
        ((state, said, mend),) = found(servers.object_store, root="s3://there-is-none/pipelines")
    assert state == "would fail" and "NoSuchBucket" in said
    assert mend.startswith("Make the bucket there-is-none")


def test_existing_services_pass(found: Any) -> None:
    named = {
        "s3_endpoint": "http://seaweedfs.kubeflow:9000",
        "registry": "kubeflow:http://model-registry-service.kubeflow.svc:8080",
    }
    assert [each[0] for each in found(servers.services, **named)] == ["ok", "ok"]
    assert found(servers.services, s3_endpoint="https://store.example.com") == [], "no name of the cluster's"


def test_a_service_that_a_stock_installation_does_not_have(found: Any) -> None:
    assert found(servers.services, s3_endpoint="http://minio.kubeflow:9000") == [
        (
            "would fail",
            "http://minio.kubeflow:9000: there is no service 'minio' in namespace 'kubeflow'",
            "Set deployment.targets.kubeflow.s3_endpoint to one of: kubectl -n kubeflow get services; the store that "
            "Pipelines brings is http://seaweedfs.kubeflow:9000",
        )
    ]


def test_the_registry_answers(found: Any) -> None:
    with kubeflow_server() as (address, _):
        assert found(servers.registry, registry=f"kubeflow:{address}") == [("ok", f"kubeflow:{address}", "")]


def test_a_registry_that_does_not_answer(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.registry.backends._kubeflow_rest.FIRST_PAUSE", 0.0)
    ((state, _, mend),) = found(servers.registry, registry="kubeflow:http://127.0.0.1:1")
    assert state == "would fail" and "to an address that answers" in mend
    with pytest.raises(UnaskedError, match="is for pods; from this machine"):
        found(servers.registry, registry="kubeflow:http://registry.invalid.svc:1")


@pytest.mark.parametrize("registry", [None, "local:/models"])
def test_a_registry_that_is_no_address_is_not_asked(found: Any, registry: str | None) -> None:
    assert found(servers.registry, registry=registry) == []


@contextmanager
def api(monkeypatch: pytest.MonkeyPatch, version: str = "2.17.0", *, multi_user: bool = False) -> Iterator[Cluster]:
    """A server, and a token that it takes for namespace team-a."""
    with pipelines_api(version, multi_user=multi_user) as cluster:
        monkeypatch.setenv("KF_PIPELINES_TOKEN", cluster.token)
        yield cluster


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        ("2.17.0", "ok", "2.17.0, for one user"),
        ("2.15.0", "ok", "2.15.0, for one user"),
        ("2.5.0", "would fail", "is Kubeflow Pipelines 2.5.0; 2.14.0 or newer is needed"),
        ("2.18.0", "ok", "2.18.0, for one user; Kubeflow Pipelines 2.18.0 is newer than 2.17.0"),
        ("unknown", "ok", "unknown, for one user; the server says 'unknown' for its version"),
    ],
)
def test_the_version(found: Any, monkeypatch: pytest.MonkeyPatch, version: str, state: str, said: str) -> None:
    with api(monkeypatch, version) as cluster:
        ((got, text, mend),) = found(servers.pipelines, endpoint=cluster.endpoint)
    assert got == state and said in text
    assert bool(mend) == (state == "would fail")


def test_an_unreachable_address_is_reported(found: Any) -> None:
    ((state, said, mend),) = found(servers.pipelines, endpoint="http://127.0.0.1:1")
    assert state == "would fail" and "http://127.0.0.1:1 did not do it" in said
    assert "kubectl -n kubeflow port-forward service/ml-pipeline 8888:8888" in mend
    with pytest.raises(UnaskedError, match="does not answer"):
        found(servers.namespace, endpoint="http://127.0.0.1:1")


def test_an_installation_for_one_user_has_one_namespace(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with api(monkeypatch) as cluster:
        ((state, said, mend),) = found(servers.namespace, endpoint=cluster.endpoint, namespace="team-a")
        assert state == "would fail" and "runs all pods in its own namespace, 'kubeflow', not in 'team-a'" in said
        assert mend.startswith("Set deployment.targets.kubeflow.namespace: kubeflow")
        assert found(servers.namespace, endpoint=cluster.endpoint) == [("ok", "pods run in kubeflow", "")]


def test_in_a_cluster_of_many_users_pods_run_in_the_namespace_of_the_settings(
    found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api(monkeypatch, multi_user=True) as cluster:
        assert found(servers.namespace, endpoint=cluster.endpoint, namespace="team-a") == [
            ("ok", "pods run in team-a", "")
        ]


@pytest.mark.parametrize("has_token", [False, True])
def test_a_caller_without_rights_in_the_namespace(found: Any, monkeypatch: pytest.MonkeyPatch, has_token: bool) -> None:
    with api(monkeypatch, multi_user=True) as cluster:
        if not has_token:
            monkeypatch.delenv("KF_PIPELINES_TOKEN")
        ((state, said, mend),) = found(servers.namespace, endpoint=cluster.endpoint, namespace="team-b")
    assert state == "would fail" and ("does not allow it" if has_token else "does not know who asks") in said
    assert "a token that is good for it" in mend
