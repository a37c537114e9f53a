"""Row rules in a pipeline's code: a file, a dict or a text become the same checked JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.authoring import step
from drivetrain.base.errors import SpecError
from drivetrain.components.prepare_data import prepare_data

RULES = {"columns": {"price": {"min": 0}, "at": {"max": "2026-01-01"}}}


def travelling(rules: Any) -> Any:
    return step(prepare_data, raw="data.csv", key="id", rules=rules).parameters["rules"]


def test_a_file_a_dict_and_a_text_travel_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text("columns:\n  price: {min: 0}\n  at: {max: 2026-01-01}\n")
    given = ["rules.yaml", Path("rules.yaml"), tmp_path / "rules.yaml", RULES, json.dumps(RULES)]
    assert [json.loads(travelling(each)) for each in given] == [RULES] * 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("missing.yaml", "Step 'prepare-data': rules is 'missing.yaml': there is no such file"),
        ("rules", "rules='rules.yaml'"),
        ({"columns": {"price": {"mim": 0}}}, "Step 'prepare-data': rules: column 'price' has no 'mim'"),
        ([1], "takes a text with JSON"),
    ],
)
def test_other_rules_are_refused_where_they_are_written(given: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        travelling(given)


def test_an_error_in_a_file_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "night.yaml").write_text("nights: {rows: {fial: 1}}\n")
    with pytest.raises(SpecError, match=r"^Step 'prepare': night\.yaml: nights: rows: "):
        step(prepare_data, name="prepare", raw="data.csv", key="id", rules="night.yaml")
