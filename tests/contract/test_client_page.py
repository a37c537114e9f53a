"""The first blocks of docs/client.md do in a new folder, one after the other, what the page says of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # trains twice
PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_runs_and_models_are_read_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIVETRAIN_PROCESSES", "1")  # the same model for half the time
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(PAGE)
    for block in blocks[:3]:
        exec(compile(block, "client.md", "exec"), names)
    run = names["run"]
    assert '("Succeeded", ' in blocks[0] and (run.status, names["longer"].status) == ("Succeeded", "Succeeded")
    said = re.search(r'metrics\["accuracy"\]  # ([0-9.]+);', blocks[0])
    assert said is not None and run.metrics["accuracy"] == pytest.approx(float(said[1]), abs=1e-2)
    assert names["first"].id == run.id and names["model"].run.id == names["longer"].id
    assert (tmp_path / "build" / "model").is_dir()
    assert all("import drivetrain as dt\n" in block for block in blocks[:4])
