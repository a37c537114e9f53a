from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.telling.content.evaluation import read_evaluation
from drivetrain.telling.page.evaluation_section import evaluation_section


def test_they_are_told_on_the_page_and_by_a_command(
    tmp_path: Path, drivetrain: Any, evaluation_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert f"{tmp_path} has no suspects.json. Give the report of evaluate(predictions=True)" in drivetrain.error(
        "data", "labels", tmp_path
    )
    one = {"row": 4, "key": "k4", "given": "stays", "suggested": "<b>leaves", "score": 0.05, "margin": 0.9}
    found = {"format": 1, "key": "id", "note": "Suggestions only: ...", "found": 1, "suspects": [one]}
    (tmp_path / "suspects.json").write_text(json.dumps(found))
    (tmp_path / "evaluation.json").write_text(json.dumps(evaluation_json))
    said = drivetrain("data", "labels", tmp_path)
    assert said.startswith("1 row may have a wrong label\nSuggestions only") and "id k4  stays  <b>leaves" in said
    assert json.loads(drivetrain("data", "labels", tmp_path, "--json")) == found
    facts = read_evaluation("evaluate", tmp_path)
    assert facts is not None and "1 row may have a wrong label" in (page := evaluation_section(facts))
    assert "&lt;b&gt;leaves" in page and "Suggestions only" in page
    (tmp_path / "suspects.json").write_text(json.dumps({**found, "suspects": [{"row": "x"}, 3], "found": 900}))
    assert drivetrain("data", "labels", tmp_path) == "900 rows may have a wrong label; the clearest 0\n"
