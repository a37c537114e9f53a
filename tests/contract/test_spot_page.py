"""docs/spot.md does what it says: its commands, in their order, and its Python."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from drivetrain import Cluster
from tests.fixtures import preloaded

PAGE = Path(__file__).parents[2] / "docs" / "spot.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.nightly
def test_its_commands_work_in_their_order(tmp_path: Path) -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 9 and all(line.startswith("drivetrain ") for line in lines)
    said: list[str] = []
    for line in lines:
        done = preloaded.drivetrain(*shlex.split(line, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == int(line.endswith("# fails")), f"{line}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
    first, seen, _, _, listed, _, failed, shown, resumed = said
    assert "interrupted 1 time, " in first and "at 70 % off; it pays from" in seen
    assert "good" in listed
    assert "max_interruptions=1" in failed and re.search(r"train goes on from step \d+: s3://", shown)
    assert "retraining succeeded" in resumed
    assert json.loads((tmp_path / "retraining.json").read_text())["Steps"]


def test_the_cluster_of_the_page_is_valid() -> None:
    (text,) = blocks("python")
    found: dict[str, object] = {}
    exec(compile(text, str(PAGE), "exec"), found)
    assert isinstance(found["cluster"], Cluster) and found["cluster"].spot is not None


def test_the_columns_of_its_example_are_those_of_the_terminal() -> None:
    from drivetrain.telling.content.goodput import Account
    from drivetrain.telling.page.interruptions import TABLE_HEAD, time_rows

    text = PAGE.read_text(encoding="utf-8")
    assert "  ".join(name.upper() for name in TABLE_HEAD) in text
    spent = Account(useful=1, saving=0, lost=0, restarting=0, down=0, saves=0, interruptions=0)
    for name, _, _ in time_rows(spent):
        assert name in text.partition("## From rehearsal")[0], name
