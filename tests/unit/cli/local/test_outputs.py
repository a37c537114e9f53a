"""Copies of outputs: a later one replaces what an earlier one left, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.local.outputs import copy_outputs


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_version_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    copy_outputs({"train": made(tmp_path / "one", "manifest.json", "v1/part.parquet")}, out)
    copy_outputs({"train": made(tmp_path / "two", "manifest.json", "v2/part.parquet")}, out)
    found = sorted(path.relative_to(out / "train").as_posix() for path in (out / "train").rglob("*"))
    assert found == ["manifest.json", "v2", "v2/part.parquet"]


def test_files_of_somebody_else_are_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    copy_outputs({"train": made(tmp_path / "one", "manifest.json")}, out)
    made(out / "train", "mine.txt")
    with pytest.raises(UserError, match=r"holds mine\.txt, which is no part of the output"):
        copy_outputs({"train": made(tmp_path / "two", "manifest.json", "more.txt")}, out)
    assert sorted(path.name for path in (out / "train").iterdir()) == ["manifest.json", "mine.txt"]
