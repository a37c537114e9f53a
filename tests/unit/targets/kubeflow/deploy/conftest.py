"""A namespace at the stand-in for Kubeflow Pipelines."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fixtures.kubeflow_pipelines.place import Place
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.s3_server import environment, s3_server, variables


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    for name in ("KF_PIPELINES_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pipelines_api() as cluster, environment(variables(s3_server())):
        yield Place(tmp_path / "code", cluster)
