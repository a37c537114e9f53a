from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.evaluation import files


def test_only_files_of_an_earlier_evaluation_are_removed(tmp_path: Path) -> None:
    own = ("evaluation.json", "bootstrap.json", ".curves.json.partial", "model_quality.json", "plots/roc_curve.svg")
    own += ("predictions/part-00000.parquet", "predictions/.part-00001.parquet.partial")
    others = ("notes.txt", "plots/mine.png", "predictions/part.parquet", "predictions/sub/part-00000.parquet")
    for name in (*own, *others):
        (tmp_path / "report" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "report" / name).write_text("x")
    files.clear(tmp_path / "report")
    left = {str(path.relative_to(tmp_path / "report")) for path in (tmp_path / "report").rglob("*") if path.is_file()}
    assert left == set(others)


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError), files.replacing(tmp_path / "a.txt") as path:
        path.write_text("half")
        raise ValueError
    assert list(tmp_path.iterdir()) == []
    with files.replacing(tmp_path / "new" / "a.txt") as path:
        path.write_text("whole")
        assert not (tmp_path / "new" / "a.txt").exists()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]


def test_nonfinite_numbers_are_never_written(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"å": 0.1})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"å": 0.1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "a.json", {"a": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"å": 0.1}


@pytest.mark.parametrize("name", ["evaluation.json", "curves.json"])
def test_a_folder_in_place_of_a_file_is_found_early(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with (
        pytest.raises(InputError, match=rf"^{tmp_path} cannot be written: Is a directory"),
        files.writable(tmp_path, "Move it."),
    ):
        files.clear(tmp_path)


@pytest.mark.parametrize("name", ["plots", "predictions"])
def test_a_file_in_place_of_a_folder_is_found_early(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with (
        pytest.raises(InputError, match=rf"^{tmp_path} cannot be written: Not a directory"),
        files.writable(tmp_path, "Move it."),
    ):
        files.clear(tmp_path)


def test_the_write_check_changes_no_files(tmp_path: Path) -> None:
    files.check(tmp_path / "new" / "m.json")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "m.json").write_text("old")
    files.check(tmp_path / "m.json")
    assert (tmp_path / "m.json").read_text() == "old"
