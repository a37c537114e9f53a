"""The Pipelines API: which version, whose pipelines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from drivetrain.infra.kubeflow.readiness import server
from drivetrain.infra.kubeflow.readiness.place import UnaskedError
from tests.fixtures.kubeflow_pipelines import server as stand_in


@pytest.fixture
def api() -> Iterator[stand_in.Cluster]:
    with stand_in.pipelines_api() as cluster:
        yield cluster


def healthy(api: stand_in.Cluster, version: str, *, multi_user: bool = False) -> None:
    """As 2.17.0 answers."""
    said = {"commit_sha": "4a3592cb2d", "tag_name": version, "multi_user": multi_user, "pipeline_store": "database"}
    api.fault = lambda method, path: json.dumps(said) if path.endswith("/healthz") else ""


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        ("2.17.0", "ok", "2.17.0, for one user"),
        ("2.15.0", "ok", "2.15.0, for one user"),
        ("2.5.0", "would fail", "2.5.0, for one user"),
        ("2.18.0", "ok", "2.18.0, for one user; newer than 2.17.0, the newest that was tried"),
        ("unknown", "ok", "unknown, for one user: whether it is 2.15.0 or newer is not known"),
    ],
)
def test_the_version(api: stand_in.Cluster, found: Any, version: str, state: str, said: str) -> None:
    healthy(api, version)
    ((got, text, mend),) = found(server.pipelines, endpoint=api.endpoint)
    assert (got, text) == (state, said)
    assert bool(mend) == (state == "would fail")


def test_an_address_where_nobody_answers(found: Any) -> None:
    ((state, said, mend),) = found(server.pipelines, endpoint="http://127.0.0.1:1")
    assert state == "would fail" and "http://127.0.0.1:1 did not do it" in said
    assert "kubectl -n kubeflow port-forward service/ml-pipeline 8888:8888" in mend
    with pytest.raises(UnaskedError, match="does not answer"):
        found(server.namespace, endpoint="http://127.0.0.1:1")


def test_an_installation_for_one_user_has_one_namespace(
    api: stand_in.Cluster, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KF_PIPELINES_TOKEN", api.token)
    api.namespaces = ("team-a", "kubeflow")
    healthy(api, "2.17.0")
    ((state, said, mend),) = found(server.namespace, endpoint=api.endpoint, namespace="team-a")
    assert state == "would fail" and "runs all pods in its own namespace, 'kubeflow', not in 'team-a'" in said
    assert mend.startswith("Set deployment.targets.kubeflow.namespace: kubeflow")
    assert found(server.namespace, endpoint=api.endpoint)[0][:2] == ("ok", "pods run in kubeflow")
    healthy(api, "2.17.0", multi_user=True)
    assert found(server.namespace, endpoint=api.endpoint, namespace="team-a")[0][:2] == ("ok", "pods run in team-a")


@pytest.mark.parametrize("token", ["", "let-me-in"])
def test_who_may_not_use_the_namespace(
    api: stand_in.Cluster, found: Any, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("KF_PIPELINES_TOKEN", token)
    healthy(api, "2.17.0", multi_user=True)
    ((state, said, mend),) = found(server.namespace, endpoint=api.endpoint, namespace="team-b")
    assert state == "would fail" and ("does not allow it" if token else "does not know who asks") in said
    assert "a token that is good for it" in mend
