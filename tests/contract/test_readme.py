"""The examples of the README and of docs/authoring.md: whole pipelines, which run, are cached, and compile."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from drivetrain.authoring.ready import ready_pipelines
from tests.fixtures import preloaded

ROOT = Path(__file__).parents[2]
PREPARED = ["prepare-data", "train", "evaluate"]


def drivetrain(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return preloaded.drivetrain(*arguments, cwd=folder)


def test_the_readme_lists_every_ready_pipeline() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- `(\w+)`: (.*)$", text, re.MULTILINE)
    assert dict(rows) == ready_pipelines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "lines", "steps"),
    [("README.md", 15, PREPARED), ("docs/authoring.md", 24, ["train", "evaluate"])],
)
def test_the_example(page: str, lines: int, steps: list[str], tmp_path: Path) -> None:
    example = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "digits.py").write_text(example)
    assert len([line for line in example.splitlines() if line.strip()]) <= lines

    first = drivetrain(tmp_path, "run", "digits.py")
    assert first.returncode == 0, first.stderr
    assert "digits version 1" in first.stdout

    again = drivetrain(tmp_path, "run", "digits.py", "--json")
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert [event["step"] for event in events if event.get("status") == "Cached"] == steps

    stricter = drivetrain(tmp_path, "run", "digits.py", "--set", "min_accuracy=0.999")
    assert stricter.returncode == 1
    assert "not good enough" in stricter.stdout + stricter.stderr

    # In a home that has never seen the pipeline: compile brings what the definition names.
    compiled = drivetrain(tmp_path, "compile", "digits.py", "-o", "digits.json", "--home", "fresh")
    assert compiled.returncode == 0, compiled.stderr
    definition = json.loads((tmp_path / "digits.json").read_text())
    assert [step["Name"] for step in definition["Steps"]] == [*steps, "decide"]

    replayed = drivetrain(tmp_path, "run", "--definition", "digits.json", "--home", "fresh")
    assert replayed.returncode == 0, replayed.stderr
