"""Definitions that the recorder took from scripts of both versions of the SDK (tests/sdk/test_scripts.py runs them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.written import write_code

FOLDER = Path(__file__).parents[4] / "fixtures" / "sagemaker_sdk" / "recorded"


@pytest.mark.parametrize("name", ["v2_abalone", "v2_repack", "v3_abalone", "v3_functions"])
def test_a_recorded_definition_becomes_code_that_means_the_same(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    written = write_code(read(text, name), "nightly")
    assert (dict(written.raw), written.is_equal) == ({}, True)
