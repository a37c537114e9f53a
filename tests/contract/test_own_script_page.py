"""docs/own_script.md does what it says: its files and its commands, in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.fixtures import preloaded

PAGE = Path(__file__).parents[2] / "docs" / "own_script.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.nightly
def test_its_commands_work_in_their_order(tmp_path: Path) -> None:
    script, pipeline, _ = blocks("python")
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "pipeline.py").write_text(pipeline)
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 4 and all(line.startswith("drivetrain ") for line in commands)
    for line in commands:
        done = preloaded.drivetrain(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    logs = sorted((tmp_path / ".drivetrain" / "runs").rglob("127.0.0.1.log"), key=lambda log: log.stat().st_mtime)
    assert [log.read_text().count("loss=") for log in logs] == [5, 5, 8]
    assert '"SM_' not in (tmp_path / "own.json").read_text(), "the variables are made in the job"


def test_its_notebook_cell_uses_existing_fields() -> None:
    from dataclasses import fields

    from drivetrain.training_scripts.train import Config

    (given,) = re.findall(r"spawn\((.*?)\)", blocks("python")[2])
    names = {word.partition("=")[0].strip() for word in given.split(",")}
    assert names - {"train", "model", "processes"} <= {field.name for field in fields(Config)}
