"""docs/triggers.md does what it says: its pipeline is built, its commands run, and show what is shown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from drivetrain.authoring.loading import load
from drivetrain.cli import main
from drivetrain.spec.pipeline import RegistryEvent, Trigger
from drivetrain.spec.steps import RegisterStep

PAGE = Path(__file__).parents[2] / "docs" / "triggers.md"
EVENT = Path(__file__).parents[1] / "fixtures" / "events" / "model_package.json"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "again.py").write_text(blocks("python")[0])
    shutil.copy(EVENT, tmp_path / "approved.json")
    return tmp_path


def test_its_commands_and_what_they_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (commands,), (shown,) = blocks("sh"), blocks("text")
    lines = [line.partition("#")[0].split() for line in commands.splitlines()]
    assert [line[:3] for line in lines] == [["drivetrain", "triggers", "list"], ["drivetrain", "triggers", "replay"]]
    for line in lines:
        assert main.run(line[1:]) == 0
    said = capsys.readouterr().out
    for line in shown.splitlines():
        assert line in said.splitlines()


def test_the_explanations_of_the_page_are_real(folder: Path) -> None:
    code, _, said = blocks("python")[1].partition("\n\n")
    names: dict[str, object] = {}
    exec(code, names)
    expression, comment = said.strip().split("\n# ")
    assert f"[{eval(expression, names)[0]}]" == comment.strip()  # type: ignore[index]


def test_the_first_pipeline_registers_in_the_watched_group(folder: Path) -> None:
    (folder / "first.py").write_text(blocks("python")[2])
    steps = load("first.py").pipeline.steps
    watched = {one.group for one in load("again.py").pipeline.triggers if isinstance(one, RegistryEvent)}
    assert {one.group for one in steps if isinstance(one, RegisterStep)} == watched == {"digits"}


def test_it_names_every_field_of_every_trigger() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds: tuple[type[Trigger], ...] = Trigger.__args__[0].__args__  # type: ignore[attr-defined]
    fields = {name for kind in kinds for name in kind.model_fields}
    assert {name for name in fields - {"kind", "name"} if not re.search(rf"\b{name}\b", text)} == set()
    assert [kind.__name__ for kind in kinds if f"{kind.__name__}(" not in text] == []
