"""docs/prediction.md: its commands exist, its tables are what the code does."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.cli import main
from drivetrain.components.batch_predict import batch_predict
from drivetrain.steps import command_line

PAGE = (Path(__file__).parents[2] / "docs" / "prediction.md").read_text(encoding="utf-8")
LINES = PAGE.replace("\\\n", "")


def named(heading: str) -> set[str]:
    """What the first cells of a table name."""
    (table,) = re.findall(rf"^\| {heading} \|.*?\n\n", PAGE, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^\|(.*?)\|", table, re.MULTILINE))))


def test_every_parameter_has_its_line() -> None:
    assert named("parameter") | {"keep"} == set(batch_predict.parameters)


def test_the_component_command_uses_existing_flags() -> None:
    (command,) = re.findall(r"^python -m drivetrain.components.batch_predict (.*)$", LINES, re.MULTILINE)
    values = command_line.read(batch_predict, shlex.split(command))
    assert (values["output"], values["keep"], values["processes"]) == (Path("build/predictions"), "id,site", 2)


@pytest.mark.parametrize("line", re.findall(r"^drivetrain ([^#\n]+)", LINES, re.MULTILINE))
def test_every_command_exists_with_its_options(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)
    assert main.run([*words[:2], "--help"]) == 0
    told = capsys.readouterr().out
    assert [word for word in words if word.startswith("-") and f"{word} " not in told and f"{word}," not in told] == []


def test_every_content_type_has_its_line() -> None:
    from drivetrain.training import plugins
    from drivetrain.training.serving import request

    types = set(request._READERS)
    for name in plugins.names("serving/raw"):
        types |= set(importlib.import_module(f"drivetrain.training.serving.raw.{name}").TYPES)
    assert named("content type") == types - {"application/x-image"}


def test_the_program_of_an_own_model_answers_every_row(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(import argparse\n.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "inference.py").write_text(program)
    (tmp_path / "rows.csv").write_text("id,visits\n0,7\n1,12\n")
    command = [sys.executable, "inference.py", "--input=rows.csv", "--output=answers.jsonl", "--keep=id"]
    subprocess.run(command, cwd=tmp_path, check=True)
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"predicted": 0}, {"predicted": 1}]
