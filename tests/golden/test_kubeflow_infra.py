"""The manifests of two pipelines as they were reviewed: `make golden` writes them anew; read them as an administrator
would before you commit them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain import Pipeline
from drivetrain.authoring.loading import load
from drivetrain.infra.kubeflow.manifests import files
from tests.fixtures.kubeflow_infra import full

HERE = Path(__file__).parent / "kubeflow_infra"
PIPELINES: dict[str, Callable[[], Pipeline]] = {"retraining": lambda: load("retraining").pipeline, "vision": full}


@pytest.mark.parametrize("name", PIPELINES)
def test_manifests(name: str, request: pytest.FixtureRequest) -> None:
    made, folder = files(PIPELINES[name]()), HERE / name
    if request.config.getoption("--write-golden"):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for file, text in made.items():
            (folder / file).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == made
