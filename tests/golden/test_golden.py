"""Compiled definitions as they were reviewed. `make golden` writes them anew; read the diff before you commit it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drivetrain.authoring.loading import load
from drivetrain.authoring.ready import ready_pipelines
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from tests.fixtures.ready import deployable

HERE = Path(__file__).parent
HASH = re.compile(r"\b[0-9a-f]{64}\b")


def without_code_hashes(text: str) -> str:
    """The code's hash changes with every line of every program; a golden file shows what a reviewer must see."""
    seen: dict[str, str] = {}
    return HASH.sub(lambda found: seen.setdefault(found.group(), f"<sha256 {len(seen) + 1}>"), text)


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_the_definition_of_a_ready_pipeline_is_unchanged(name: str, request: pytest.FixtureRequest) -> None:
    loaded = load(name, overrides=deployable(name))
    text = without_code_hashes(compile_pipeline(loaded.pipeline, loaded.source, loaded.base).text)
    golden = HERE / f"{name}.json"
    if request.config.getoption("--write-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
