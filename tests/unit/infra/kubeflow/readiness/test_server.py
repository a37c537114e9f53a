"""The Pipelines API: which version, whose pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drivetrain.infra.kubeflow.readiness import server
from drivetrain.infra.kubeflow.readiness.place import UnaskedError
from tests.fixtures.kubeflow_pipelines.server import Cluster, pipelines_api


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
        ((got, text, mend),) = found(server.pipelines, endpoint=cluster.endpoint)
    assert got == state and said in text
    assert bool(mend) == (state == "would fail")


def test_an_unreachable_address_is_reported(found: Any) -> None:
    ((state, said, mend),) = found(server.pipelines, endpoint="http://127.0.0.1:1")
    assert state == "would fail" and "http://127.0.0.1:1 did not do it" in said
    assert "kubectl -n kubeflow port-forward service/ml-pipeline 8888:8888" in mend
    with pytest.raises(UnaskedError, match="does not answer"):
        found(server.namespace, endpoint="http://127.0.0.1:1")


def test_an_installation_for_one_user_has_one_namespace(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with api(monkeypatch) as cluster:
        ((state, said, mend),) = found(server.namespace, endpoint=cluster.endpoint, namespace="team-a")
        assert state == "would fail" and "runs all pods in its own namespace, 'kubeflow', not in 'team-a'" in said
        assert mend.startswith("Set deployment.targets.kubeflow.namespace: kubeflow")
        assert found(server.namespace, endpoint=cluster.endpoint) == [("ok", "pods run in kubeflow", "")]


def test_in_a_cluster_of_many_users_pods_run_in_the_namespace_of_the_settings(
    found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api(monkeypatch, multi_user=True) as cluster:
        assert found(server.namespace, endpoint=cluster.endpoint, namespace="team-a") == [
            ("ok", "pods run in team-a", "")
        ]


@pytest.mark.parametrize("has_token", [False, True])
def test_a_caller_without_rights_in_the_namespace(found: Any, monkeypatch: pytest.MonkeyPatch, has_token: bool) -> None:
    with api(monkeypatch, multi_user=True) as cluster:
        if not has_token:
            monkeypatch.delenv("KF_PIPELINES_TOKEN")
        ((state, said, mend),) = found(server.namespace, endpoint=cluster.endpoint, namespace="team-b")
    assert state == "would fail" and ("does not allow it" if has_token else "does not know who asks") in said
    assert "a token that is good for it" in mend
