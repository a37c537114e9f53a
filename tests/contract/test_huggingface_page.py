"""docs/huggingface.md: its tables are the recipe's options. (Its pipelines: test_gallery.py.)"""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

from drivetrain.components.evaluate import evaluate
from drivetrain.components.train import train
from drivetrain.steps import command_line
from drivetrain.training_scripts.recipes import huggingface

HEADS = ("sequence_classification", "token_classification", "causal_lm")

PAGE = (Path(__file__).parents[2] / "docs" / "huggingface.md").read_text(encoding="utf-8")


def named(heading: str) -> set[str]:
    """What the first cells of a table name."""
    (table,) = re.findall(rf"^\| {re.escape(heading)} \|.*?\n\n", PAGE, re.DOTALL | re.MULTILINE)
    cells = re.findall(r"^\|(.*?)\|", table, re.MULTILINE)[1:]
    return set(re.findall(r"`(\w+)`", "".join(cells)))


def test_its_tables_have_every_option() -> None:
    assert named("option") == {field.name for field in dataclasses.fields(huggingface.Recipe)}
    assert named("`head`") == set(HEADS)
    assert named("handed on") >= {"merged", "apart"}


def test_its_components_take_its_flags() -> None:
    lines = PAGE.replace("\\\n", "")
    (training,) = re.findall(r"^python -m drivetrain.components.train (.*)$", lines, re.MULTILINE)
    assert command_line.read(train, shlex.split(training))["recipe"] == "huggingface"
    (measuring,) = re.findall(r"^python -m drivetrain.components.evaluate (.*)$", lines, re.MULTILINE)
    assert command_line.read(evaluate, shlex.split(measuring))["model"] == Path("build/model")
