"""The name under which a definition's file runs."""

from __future__ import annotations

import json
from pathlib import Path

from drivetrain.operations.operands import Work, compiled
from tests.unit.cli.conftest import definition


def test_an_exported_definition_runs_like_its_pipeline(tmp_path: Path) -> None:
    (tmp_path / "customers.py").write_text(
        "from drivetrain import Pipeline, step\n"
        "from drivetrain.components import Output, component\n\n\n"
        "@component\ndef load(data: Output) -> None: ...\n\n\n"
        "def customers() -> Pipeline:\n    return Pipeline(name='customers', steps=[step(load)])\n"
    )
    file = tmp_path / "exported.json"
    file.write_text(compiled(str(tmp_path / "customers.py"), None, None).text)
    assert Work.from_definition(file, None, None).name == "customers"


def test_a_foreign_definition_runs_under_the_name_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "their pipeline.json"
    file.write_text(json.dumps(definition()))
    assert Work.from_definition(file, None, None).name == "their-pipeline"
