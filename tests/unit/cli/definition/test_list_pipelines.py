from __future__ import annotations

import json
import re

import pytest

from drivetrain.cli.definition.list_pipelines import own_pipelines

TWO = '''"""Many things."""
from drivetrain import Pipeline
raise RuntimeError("a list imports nothing")

def day() -> Pipeline:
    """Runs by day.

    More.
    """

def night() -> "Pipeline": ...
def helper() -> int: ...
'''


def test_own_files_are_listed_without_importing_them(drivetrain) -> None:
    drivetrain.write("two.py", TWO)
    drivetrain.write("one.py", '"""My digits."""\nimport drivetrain as p\ndef mine() -> p.Pipeline: ...\n')
    drivetrain.write("broken.py", "def Pipeline(:")
    drivetrain.write("other.py", "x = 1")
    assert own_pipelines(drivetrain.folder) == {
        "one.py": "My digits.", "two.py:day": "Runs by day.", "two.py:night": "",
    }  # fmt: skip


def test_list(drivetrain) -> None:
    drivetrain.write("one.py", '"""My digits."""\nfrom drivetrain import Pipeline\ndef m() -> Pipeline: ...\n')
    lines = drivetrain("list").splitlines()
    assert any(re.match("retraining +Retrain a model", line) for line in lines)
    assert any(re.match(r"one\.py +My digits\.", line) for line in lines)
    found = json.loads(drivetrain("list", "--json"))
    assert {"pipeline": "one.py", "description": "My digits.", "kind": "file"} in found


def test_a_narrow_terminal_cuts_the_description(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = drivetrain("list").splitlines()
    assert len(lines[1]) == 40 and lines[1].endswith("…")
