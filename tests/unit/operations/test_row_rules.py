"""Row rules outside of a step: suggested from sets, and checked by `drivetrain data check`."""

import json
from pathlib import Path

import pytest

from drivetrain.authoring.row_rules import read_rules
from drivetrain.cli.main import run
from drivetrain.components.prepare_data import prepare_data

SIDES = ("train", "validation", "test")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    rows = [
        f"{key},{key / 4e6},{'CH' if key % 3 else 'DE'},{key - 50},text {key},{key if key % 10 else ''}"
        for key in range(200)
    ]
    (folder / "raw.csv").write_text("\n".join(["id,small,country,number,note,gaps", *rows]) + "\n")
    prepare_data(folder / "raw.csv", *(folder / side for side in SIDES), key="id")
    return folder


def test_suggested_rules_say_what_the_sets_hold_and_hold_for_them(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.yaml"
    assert run(["data", "rules", *(str(sets / side) for side in SIDES), "-o", str(file)]) == 0
    columns = read_rules(file)["columns"]
    assert run(["data", "rules", *(str(sets / side) for side in SIDES), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == read_rules(file)
    assert columns["id"] == {"type": "int64", "nulls": "warn", "unique": "fail"}
    assert columns["country"]["values"] == ["CH", "DE"] and "values" not in columns["note"]
    assert (columns["number"]["min"], columns["number"]["max"]) == (-150, 249)
    assert columns["small"]["min"] == 0 and columns["small"]["max"] == pytest.approx(1.5 * 199 / 4e6)
    assert columns["gaps"]["nulls"] == {"share": 0.2}
    assert "# 20 rows (10 %) are without a value" in file.read_text()
    for data in (sets / "train", sets / "raw.csv"):
        assert run(["data", "check", str(data), str(file)]) == 0
    said = capsys.readouterr().out
    assert "warning" not in said and "failed" not in said


def test_a_check_prints_each_rule_and_fails_where_one_is_broken(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("columns:\n  number: {min: -49}\n  country: {unique: quarantine, values: {is: [CH], then: warn}}\n")
    assert run(["data", "check", str(sets / "raw.csv"), str(file)]) == 1
    said = capsys.readouterr().out
    assert (
        "failed: column 'number' is less than -49 in 1 of 200 rows (0.5 %; allowed: 0), first in raw.csv, row 2."
        in said
    )
    assert "failed: column 'country' is there in an earlier row in 198 of 200 rows" in said
    assert run(["data", "check", str(sets / "raw.csv"), str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(each["rule"], each["rows"]) for each in found["rules"]] == [("min", 1), ("unique", 198), ("values", 67)]
    assert [each["fails"] for each in found["broken"]] == [True, True, False]
    assert run(["data", "check", str(sets / "raw.csv"), str(tmp_path / "none.yaml")]) == 2
