"""A namespace at the stand-in for Kubeflow Pipelines."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from drivetrain.targets.kubeflow.deploy import objects
from tests.fixtures.kubeflow_pipelines.place import Place
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.memory_objects import MemoryStorage


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    """At a server for a single user."""
    yield from _place(tmp_path, monkeypatch, multi_user=False)


@pytest.fixture
def shared_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    """At a server for several users, which asks for a token and knows namespaces."""
    yield from _place(tmp_path, monkeypatch, multi_user=True)


def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, multi_user: bool) -> Generator[Place]:
    for name in ("KF_PIPELINES_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(objects, "Client", MemoryStorage().client)
    with pipelines_api(multi_user=multi_user) as cluster:
        yield Place(tmp_path / "code", cluster, "http://storage.example.com", "bucket")
