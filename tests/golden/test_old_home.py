"""A home that an earlier version made is read as ever: pages, texts, JSON, events and what notebooks get.

tests/fixtures/homes/sweeping holds four runs of a pipeline with a ForEach and a condition: one that succeeded, one that
took its results from the cache, one that failed and whose folder was cleaned, one whose process was killed. Its ledger
is kept as SQL.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli import main
from drivetrain.cli.runs.following import follow_events
from drivetrain.client.run import Run
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.page import render

FIXTURE = Path(__file__).parents[1] / "fixtures" / "homes" / "sweeping"
GOLDEN = Path(__file__).parent / "homes"
RUNS = {"succeeded": "a7333e1cb1d7", "cached": "3b7c66b0dcdc", "failed": "d123c13161fb", "killed": "774c527820f1"}
SAID = ("name", "status", "seconds", "attempts", "reason", "why", "unhealthy", "cache_of", "settings", "metrics")
COMMANDS = {
    "list": ("list",),
    "list.json": ("list", "--json"),
    "compare": ("compare", RUNS["succeeded"], RUNS["cached"]),
    "compare.json": ("compare", RUNS["succeeded"], RUNS["cached"], "--json"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    shutil.copytree(FIXTURE, tmp_path / "home")
    home = Home(tmp_path / "home")
    home.create()
    sql = (home.root / "ledger.sql").read_text()
    with sqlite3.connect(home.ledger) as ledger:
        ledger.executescript(sql)
    monkeypatch.setenv("DRIVETRAIN_HOME", "home")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")
    time.tzset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("drivetrain.telling.content.from_ledger.time.time", lambda: 1796000000.0)
    return home


def _said(home: Home, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    for name, id in RUNS.items():
        for kind, words in (("txt", ()), ("json", ("--json",))):
            main.run(["runs", "show", id, *words])
            yield f"{name}.{kind}", capsys.readouterr().out
        with Ledger(home) as ledger:
            yield f"{name}.html", render(run_facts(ledger, id))
        yield f"{name}.events.json", "\n".join(_events(home, id)) + "\n"
        yield f"{name}.steps.json", json.dumps(list(_steps(home, id)), indent=1) + "\n"
    for name, words in COMMANDS.items():
        main.run(["runs", *words])
        yield name, capsys.readouterr().out


def _events(home: Home, id: str) -> list[str]:
    told: list[str] = []
    tell = lambda event, at: told.append(json.dumps([type(event).__name__, asdict(event), round(at, 3)]))  # noqa: E731
    with Ledger(home) as ledger:
        follow_events(ledger, id, tell)
    return told


def _steps(home: Home, id: str) -> Iterator[dict[str, Any]]:
    for step in Run(id, home="home").steps.values():
        folders = {
            key: {name: str(path.relative_to(Path.cwd())) for name, path in getattr(step, key).items()}
            for key in ("inputs", "outputs")
        }
        said = {name: getattr(step, name) for name in SAID}
        yield {**said, "settings": dict(step.settings), "metrics": dict(step.metrics), **folders, "log": step.log()}


def test_an_old_home_is_shown_unchanged(
    home: Home, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    said = dict(_said(home, capsys))
    # The style and scripts of pages, and the version that wrote them, may change.
    said |= {
        name: re.sub(r"(?s)<(style|script)\b.*?</\1>", "", text).replace("><", ">\n<")
        for name, text in said.items()
        if name.endswith(".html")
    }
    if request.config.getoption("--write-golden"):
        for name, text in said.items():
            (GOLDEN / name).write_text(text)
    assert said == {path.name: path.read_text() for path in GOLDEN.iterdir()}
