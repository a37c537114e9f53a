"""The data sets of a run, as their manifests say, and as the page shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.components.prepare_data import prepare_data
from drivetrain.telling.content.datasets import DatasetFacts, read_dataset
from drivetrain.telling.page.data_section import draw as data_section

SIDES = ("train", "validation", "test")


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    rows = [f"{key},u{key % 40},{'' if key % 10 == 0 else key % 7},{key % 2}" for key in range(400)]
    (tmp_path / "raw" / "1.csv").write_text("id,user,x,label\n" + "\n".join(rows) + "\n")
    prepare_data(tmp_path / "raw", *(tmp_path / side for side in SIDES), key="id", label="label", groups="user")
    return tmp_path


def read(folder: Path) -> DatasetFacts:
    found = read_dataset("prepare-data", folder)
    assert found is not None
    return found


def test_the_page_shows_the_manifest(prepared: Path) -> None:
    train, validation = read(prepared / "train"), read(prepared / "validation")
    assert train.leaked_rows is None and not train.leaks
    assert validation.leaked_rows and validation.leaks
    column = next(column for column in train.columns if column.name == "x")
    assert (column.type, column.low, column.high, column.distinct) == ("int64", 0, 6, 7)
    assert sum(column.bins) == train.rows - (column.nulls or 0)
    page = str(data_section((train, validation)))
    assert f"{train.rows:,}" in page and train.content in page
    assert f"{validation.leaked_rows:,} rows (" in page and "values of user" in page
    assert page.count("<svg") == 4  # x and label of both


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"content_hash": 7, "rows": "many"}', '{"content_hash": "a", "rows": -1}', "nothing"]
)
def test_foreign_manifests_are_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    assert read_dataset("step", tmp_path) is None


def test_hostile_manifest_entries_are_ignored(prepared: Path) -> None:
    path = prepared / "validation" / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text())
    manifest["statistics"]["x"] |= {"min": [1], "max": "<script>", "histogram": {"rows": [-5, "a", 1e300]}, "nulls": -1}
    manifest["leakage"] = {"rows": 0, "groups": {"<b>": 3}}
    path.write_text(json.dumps(manifest))
    page = str(data_section((read(prepared / "validation"),)))
    assert "<script>" not in page and "&lt;script&gt;" in page and "3 values of &lt;b&gt;" in page


def test_a_rewritten_manifest_is_reread(prepared: Path) -> None:
    path = prepared / "train" / "manifest.json"
    before = read(prepared / "train")
    path.write_text(path.read_text().replace(f'"rows": {before.rows}', f'"rows": {before.rows - 1}'))
    assert read(prepared / "train").rows == before.rows - 1
    path.unlink()
    assert read_dataset("prepare-data", prepared / "train") is None
