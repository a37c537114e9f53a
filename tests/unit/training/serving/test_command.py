"""The command of a model folder: what it refuses before the model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import BAD_INPUT
from drivetrain.training.serving.command import main
from drivetrain.training.serving.model import ServedModel


def test_the_input_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, link = tmp_path / "rows.json", tmp_path / "link.json"
    rows.write_text("[[1]]")
    link.symlink_to(rows)
    for source, target in ((rows, rows), (rows, tmp_path / "." / "rows.json"), (rows, link), (link, rows)):
        assert main(tmp_path, ServedModel.load, ["--input", str(source), "--output", str(target)]) == BAD_INPUT
        assert capsys.readouterr().err == (
            f"error: {target} is the input: the answers would replace its rows. Give --output another place.\n"
        )
    assert rows.read_text() == "[[1]]" and link.is_symlink()


def test_another_existing_output_may_be_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, old = tmp_path / "rows.json", tmp_path / "old.json"
    rows.write_text("[[1]]")
    old.write_text("[[1]]")
    assert main(tmp_path, ServedModel.load, ["--input", str(rows), "--output", str(old)]) == BAD_INPUT
    assert "is not a model folder" in capsys.readouterr().err  # the next thing that is wrong
