"""docs/prediction.md: its commands exist, its tables are what the code does."""

from __future__ import annotations

import importlib
import re
import shlex
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


def test_the_component_s_command_has_flags_that_exist() -> None:
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
