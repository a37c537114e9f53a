"""docs/targets.md: its tables are what the targets' own checks say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.target import target_names
from tests.fixtures.more_targets import more_targets
from tests.target_features.__main__ import BEGIN, END, in_page, main, tables
from tests.target_features.features import features

TITLES = ("Kubeflow Pipelines", "SageMaker Pipelines", "Shell commands")
PAGE = Path(__file__).parents[2] / "docs" / "targets.md"


@pytest.fixture(scope="module")
def found() -> str:
    return tables(target_names())


def test_the_page_has_the_tables(found: str) -> None:
    """`make targets` writes them anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert in_page(text, found) == text


def test_every_feature_is_a_row_of_its_own(found: str) -> None:
    known = features()
    assert len({feature.name for feature in known}) == len({feature.title for feature in known}) == len(known) > 50
    rows = found.splitlines()
    assert all(sum(row.startswith(f"| {feature.title} |") for row in rows) == 1 for feature in known)
    assert all(row.count(" | ") == len(target_names()) for row in rows if row)


def test_every_target_gets_a_column(found: str) -> None:
    with more_targets():
        more = tables(target_names())
    heads = [row for row in more.splitlines() if row.endswith(f"| {' | '.join(TITLES)} |")]
    assert len(heads) == len({feature.group for feature in features()})
    assert "| a training | yes | yes |\n" in found
    assert (
        "| a training | yes | yes | no: training: a script has commands of components alone. Leave it out. |\n" in more
    )


def test_the_command_writes_them_in_their_place(tmp_path: Path, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.target_features.__main__.tables", lambda targets: found)
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\nafter\n")
    assert list(main([str(page)])) == []
    assert page.read_text() == f"before\n\n{BEGIN}\n{found}{END}\nafter\n"
    with pytest.raises(UserError, match="no place for the tables"):
        in_page("a page", "tables")


@pytest.mark.slow
def test_the_command_prints_them(found: str) -> None:
    command = [sys.executable, "-m", "tests.target_features"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == found
