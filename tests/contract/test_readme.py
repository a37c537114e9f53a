"""The README's example is what it says: a whole pipeline, which runs, is cached, and compiles."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.fixtures import preloaded

README = Path(__file__).parents[2] / "README.md"


def drivetrain(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return preloaded.drivetrain(*arguments, cwd=folder)


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "digits.py").write_text(example)
    assert len([line for line in example.splitlines() if line.strip()]) <= 30

    first = drivetrain(tmp_path, "run", "digits.py")
    assert first.returncode == 0, first.stderr
    assert "digits version 1" in first.stdout

    again = drivetrain(tmp_path, "run", "digits.py", "--json")
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert [event["step"] for event in events if event.get("status") == "Cached"] == ["train", "evaluate"]

    stricter = drivetrain(tmp_path, "run", "digits.py", "--set", "min_accuracy=0.99")
    assert stricter.returncode == 1
    assert "not good enough" in stricter.stdout + stricter.stderr

    # In a home that has never seen the pipeline: compile brings what the definition names.
    compiled = drivetrain(tmp_path, "compile", "digits.py", "-o", "digits.json", "--home", "fresh")
    assert compiled.returncode == 0, compiled.stderr
    definition = json.loads((tmp_path / "digits.json").read_text())
    assert [step["Name"] for step in definition["Steps"]] == ["train", "evaluate", "decide"]

    replayed = drivetrain(tmp_path, "run", "--definition", "digits.json", "--home", "fresh")
    assert replayed.returncode == 0, replayed.stderr
