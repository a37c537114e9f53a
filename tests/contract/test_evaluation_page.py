"""docs/evaluation.md: its commands exist, and its tables are what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from drivetrain.components.evaluate import evaluate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z_0-9.]+)`", PAGE))


def test_every_parameter_has_its_line() -> None:
    (table,) = re.findall(r"\| parameter \|.*?\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\|(.*?)\|", table, re.MULTILINE)))) == set(
        evaluate.parameters
    )


def test_the_commands_use_existing_flags() -> None:
    from drivetrain.steps import command_line

    commands = re.findall(r"^python -m drivetrain.components.evaluate (.*)$", PAGE.replace("\\\n", ""), re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        values = command_line.read(evaluate, shlex.split(command))
        assert values["data"] == Path("build/test")


def test_the_default_metrics_match_the_page() -> None:
    from drivetrain.training.metric import DEFAULTS

    rows = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z]+)` \|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)}
    assert {kind: tuple(re.findall(r"`([a-z_0-9]+)`", rows[kind])) for kind in DEFAULTS} == dict(DEFAULTS)


def test_every_file_of_a_report_is_named() -> None:
    from drivetrain.training.evaluation import files

    names = (files.EVALUATION_FILE, files.BOOTSTRAP_FILE, files.CURVES_FILE, files.MODEL_QUALITY_FILE)
    assert set(names) <= NAMED
    assert f"`{files.PLOTS_FOLDER}/*.svg`" in PAGE
    assert f"`{files.PREDICTIONS_FOLDER}/part-00000.parquet`" in PAGE
