"""Two data sets are compared by the keys of their rows, and by the values of their columns."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.cli.main import run
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.data import differences
from drivetrain.data.differences import compare_rows


def rows(keys: range, shift: float = 0.0, more: dict[str, Any] | None = None) -> pa.Table:
    columns: dict[str, Any] = {"id": list(keys), "x": [random.Random(key).gauss(0, 1) + shift for key in keys]}
    columns["city"] = [("Bern", "Oslo")[key % 3 == 0] if key % 4 else None for key in keys]
    return pa.table({**columns, **(more or {})})


def prepared(place: Path, table: pa.Table) -> Path:
    (place / "raw").mkdir(parents=True)
    pq.write_table(table, place / "raw" / "rows.parquet")
    sides = [place / side for side in ("train", "validation", "test")]
    prepare_data(place / "raw", *sides, key="id", validation_percent=0, test_percent=0)
    return place / "train"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """2,000 rows; then 100 of them are gone, 300 are new, 40 have another city, and all have another column."""
    place = tmp_path_factory.mktemp("sets")
    second = rows(range(2300)).to_pylist()[100:]
    for row in second[:40]:
        row["city"] = "Rome"
    first = prepared(place / "a", rows(range(2000), more={"old": [1] * 2000}))
    return first, prepared(place / "b", pa.Table.from_pylist([{**row, "new": 1.5} for row in second]))


@pytest.mark.parametrize("part_rows", [1 << 20, 150])
def test_rows_are_compared_by_key(sets: tuple[Path, Path], part_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "PART_ROWS", part_rows)
    found = compare_rows(*sets)
    assert (found.added, found.removed, found.changed, found.equal) == (300, 100, 40, 1860)
    keys = {kind: set(each) for kind, each in found.keys.items()}
    assert all(len(each) == 5 for each in keys.values())
    assert keys["added"] <= {*range(2000, 2300)} and keys["removed"] <= {*range(100)}
    assert keys["changed"] <= {*range(100, 140)}


def test_the_diff_command_shows_rows_types_and_columns(
    sets: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = prepared(tmp_path / "c", rows(range(2000), shift=1.0))
    capsys.readouterr()
    assert run(["data", "diff", str(sets[0]), str(moved)]) == 0
    said = capsys.readouterr().out
    assert "0 rows added\n0 rows removed\n2,000 rows changed, such as " in said
    assert "column old: int64 before, not there now" in said
    (line,) = [line for line in said.splitlines() if line.startswith("x ")]
    share = float(line.split()[1].rstrip("%"))
    assert 35 < share < 42  # of normal numbers that a standard deviation lies between: 38.3 %
    assert not any(line.startswith(("city ", "id ")) for line in said.splitlines())
    assert run(["data", "diff", *map(str, sets), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"]["changed"] == 40
    by_name = {each["column"]: each for each in facts["columns"]}
    assert by_name["city"]["moved"] == pytest.approx(40 / 1500, abs=0.03) and by_name["city"]["means"] == [None, None]


def test_the_show_command_shows_columns_and_first_rows(
    sets: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "data.html"
    assert run(["data", "show", str(sets[1]), "-o", str(page)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("train: 2,200 rows, ") and f"The page is in {page}" in said
    (line,) = [line for line in said.splitlines() if line.startswith("city ")]
    assert line.split()[:4] == ["city", "string", "540", "3"]
    text = page.read_text()
    assert "First rows of train" in text and "<svg" in text and "Rome" in text
    assert run(["data", "show", str(sets[1]), "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["rows"] == 2200 and facts["sample"][0]["id"] == 100 and facts["null_together"] == []
    assert run(["data", "show", str(sets[1]), "-o", "page.md"]) == 2


def test_a_set_is_equal_to_itself(sets: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "diff", str(sets[0]), str(sets[0])]) == 0
    assert capsys.readouterr().out.endswith("2,000 rows are equal\nNo column moved by 1% or more.\n")


def test_sets_without_one_key_are_refused(sets: tuple[Path, Path], tmp_path: Path) -> None:
    transform_data(sets[0].parent / "raw", tmp_path / "table", plan='[{"select": ["id"]}]')
    with pytest.raises(InputError, match="rows are compared by key, and the keys are 'id' and None"):
        compare_rows(sets[0], tmp_path / "table")
