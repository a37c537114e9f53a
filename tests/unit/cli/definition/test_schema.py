"""`drivetrain schema` writes all of them, the same bytes each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from drivetrain.cli import main

ALL = (["settings", "retraining"], ["definition"], ["patch"])


@pytest.mark.slow_cases("definition")
@pytest.mark.parametrize("which", ALL, ids=lambda which: which[0])
def test_the_printed_and_written_schema_are_equal(
    which: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["schema", *which]) == 0
    printed = capsys.readouterr().out
    schema = json.loads(printed)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert main.run(["schema", *which, "-o", str(tmp_path / "s.json")]) == 0
    assert (tmp_path / "s.json").read_text() == printed


@pytest.mark.slow
def test_the_schema_is_deterministic_across_processes() -> None:
    program = "from drivetrain.cli import main\n" + "".join(f"main.run({['schema', *one]})\n" for one in ALL)
    command = [sys.executable, "-c", program]
    given = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    ]
    assert given[0] == given[1]
    assert len(given[0]) > 100_000


def test_a_settings_class_with_a_required_field_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("needy_one.py").write_text(
        "from drivetrain import Pipeline, Settings\n\n\n"
        "class Needy(Settings):\n    data: str\n    '''Where it lies.'''\n\n\n"
        "def needy(settings: Needy) -> Pipeline: ...\n"
    )
    assert main.run(["schema", "settings", "needy_one.py"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["required"] == ["data"]
    assert schema["properties"]["data"]["description"] == "Where it lies."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["settings", "retrain"], "No pipeline 'retrain'"),
        (["settings"], "Missing argument"),
        (["definitions"], "Did you mean"),
    ],
)
def test_undescribable_settings_are_reported(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["schema", *arguments]) == 2
    assert said in capsys.readouterr().err
