"""The object store and the model registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain.infra.kubeflow.readiness import storage
from drivetrain.infra.kubeflow.readiness.place import UnaskedError
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
        assert found(storage.object_store, root=root) == [("ok", f"{root} at {endpoint}", "")]
        ((state, said, mend),) = found(storage.object_store, root="s3://there-is-none/pipelines")
    assert state == "would fail" and "NoSuchBucket" in said
    assert mend.startswith("Make the bucket there-is-none")


def test_existing_services_pass(found: Any) -> None:
    named = {
        "s3_endpoint": "http://seaweedfs.kubeflow:9000",
        "registry": "kubeflow:http://model-registry-service.kubeflow.svc:8080",
    }
    assert [each[0] for each in found(storage.services, **named)] == ["ok", "ok"]
    assert found(storage.services, s3_endpoint="https://store.example.com") == [], "no name of the cluster's"


def test_a_service_that_a_stock_installation_does_not_have(found: Any) -> None:
    assert found(storage.services, s3_endpoint="http://minio.kubeflow:9000") == [
        (
            "would fail",
            "http://minio.kubeflow:9000: there is no service 'minio' in namespace 'kubeflow'",
            "Set deployment.targets.kubeflow.s3_endpoint to one of: kubectl -n kubeflow get services; the store that "
            "Pipelines brings is http://seaweedfs.kubeflow:9000",
        )
    ]


def test_the_registry_answers(found: Any) -> None:
    with kubeflow_server() as (address, _):
        assert found(storage.registry, registry=f"kubeflow:{address}") == [("ok", f"kubeflow:{address}", "")]


def test_a_registry_that_does_not_answer(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.registry.backends._kubeflow_rest.FIRST_PAUSE", 0.0)
    ((state, _, mend),) = found(storage.registry, registry="kubeflow:http://127.0.0.1:1")
    assert state == "would fail" and "to an address that answers" in mend
    with pytest.raises(UnaskedError, match="is for pods; from this machine"):
        found(storage.registry, registry="kubeflow:http://registry.invalid.svc:1")


@pytest.mark.parametrize("registry", [None, "local:/models"])
def test_a_registry_that_is_no_address_is_not_asked(found: Any, registry: str | None) -> None:
    assert found(storage.registry, registry=registry) == []
