"""`drivetrain runs list --where`, tag, name, note, delete and prune."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.run_store.home import Home
from tests.fixtures.many_runs import write_runs
from tests.unit.cli.conftest import CommandLine


def test_runs_are_found_by_labels_and_results(drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    drivetrain.run("--tag", "team=vision", "--tag", "version=1.10")
    drivetrain.run("--param", "MinAccuracy=0.5", accuracy=0.7)
    home = ("--home", drivetrain.home)
    text = drivetrain("runs", "list", "--where", "MinAccuracy > 0.6", *home)
    assert len(text.splitlines()) == 2 and "MINACCURACY" in text and "team=vision version=1.10" in text
    text = drivetrain("runs", "list", "--sort", "-accuracy", *home)
    assert [line.split()[-1] for line in text.splitlines()[1:]] == ["version=1.10", "0.7000"]
    (found,) = json.loads(drivetrain("runs", "list", "-w", "accuracy > 0.9 and tag.team = vision", "--json", *home))
    assert found["tags"] == {"team": "vision", "version": "1.10"} and found["metrics"]["accuracy"] == 0.95
    assert found["settings"]["evaluate.rows"] == 10 and found["seconds"] >= 0
    assert drivetrain("runs", "list", "-w", "accuracy > 2", *home) == "No such run.\n"
    error = drivetrain.error("runs", "list", "-w", "accuracy >> 2", *home)
    assert "a value: a number" in error and error.endswith("            ^\n")
    assert "--tag 'team': give NAME=TEXT" in drivetrain.error("run", "x.py", "--tag", "team")


def test_tags_names_and_notes(drivetrain: CommandLine) -> None:
    drivetrain.run()
    drivetrain.run(accuracy=0.92)
    home = ("--home", drivetrain.home)
    (new, old) = (each["id"] for each in json.loads(drivetrain("runs", "list", "--json", *home)))
    assert drivetrain("runs", "tag", "latest", "a=1", "b=x y", *home) == f"{new}: a=1, b=x y\n"
    assert drivetrain("runs", "tag", new[:5], "a=2", "--remove", "b", *home) == f"{new}: a=2\n"
    assert "has no tag 'b'. Allowed: a." in drivetrain.error("runs", "tag", new, "--remove", "b", *home)
    assert "Tag 'b c': a name is" in drivetrain.error("runs", "tag", new, "b c=1", *home)
    assert json.loads(drivetrain("runs", "tag", new, "--json", *home)) == {"execution": new, "tags": {"a": "2"}}
    assert drivetrain("runs", "name", old, "first", *home) == f"{old} is called first.\n"
    assert old in drivetrain("runs", "show", "first", *home)
    assert f"Run {old} is called 'first' already" in drivetrain.error("runs", "name", new, "first", *home)
    assert "cannot be called 'latest'" in drivetrain.error("runs", "name", new, "latest", *home)
    said = drivetrain("runs", "note", "first", "warm-up was too short", "--json", *home)
    assert json.loads(said) == {"execution": old, "note": "warm-up was too short"}
    assert json.loads(drivetrain("runs", "name", "first", "first", "--json", *home))["name"] == "first"
    assert json.loads(drivetrain("runs", "report", "latest", "--json", *home))["page"].endswith("report.html")
    assert "first\nwarm-up was too short" in drivetrain("runs", "show", "first", *home)
    page = Path(drivetrain("runs", "report", "first", *home).strip()).read_text()
    assert "<dd>first</dd>" in page and "warm-up was too short" in page
    (found,) = json.loads(drivetrain("runs", "list", "-w", "note ~ WARM", "--json", *home))
    assert (found["id"], found["name"], found["note"]) == (old, "first", "warm-up was too short")
    assert drivetrain("runs", "name", old, "1st", *home) == f"{old} is called 1st, no longer first.\n"
    assert drivetrain("runs", "prune", "--keep", "1", *home).startswith(f"{old} stays: it is called 1st.\n")
    assert json.loads(drivetrain("runs", "prune", "--keep", "1", "--json", *home))["kept"] == {old: "it is called 1st"}
    assert drivetrain("runs", "name", "1st", *home) == f"{old} is no longer called 1st.\n"
    assert drivetrain("runs", "name", old, *home) == f"{old} has no name.\n"
    assert "No execution 'first'" in drivetrain.error("runs", "show", "first", *home)


def test_deletions_are_shown_before_they_happen(drivetrain: CommandLine) -> None:
    write_runs(Home(drivetrain.home), 30)
    home = ("--home", drivetrain.home)
    text = drivetrain("runs", "prune", "--keep", "3", *home)
    assert text.endswith("Would remove 24 runs, 0 B. Nothing is removed yet: add --yes.\n") and "... and 4 more" in text
    assert len(json.loads(drivetrain("runs", "list", "-n", "99", "--json", *home))) == 30
    done = json.loads(drivetrain("runs", "prune", "--keep", "3", "--yes", "--json", *home))
    assert done["removed"] is True and len(done["runs"]) == 24 and done["kept"] == {}
    left = json.loads(drivetrain("runs", "list", "-n", "99", "--json", *home))
    assert sorted(int(each["id"]) for each in left) == list(range(24, 30))
    assert drivetrain("runs", "delete", "000000000029", "--yes", *home).endswith("Removed 1 run, 0 B.\n")
    assert "No execution '000000000029'" in drivetrain.error("runs", "delete", "000000000029", *home)
    assert drivetrain("runs", "prune", "--keep", "9", *home) == "Nothing to remove.\n"


def test_the_pages_of_all_runs_are_written_to_a_folder(drivetrain: CommandLine) -> None:
    drivetrain.run()
    home = ("--home", drivetrain.home)
    assert drivetrain("runs", "report", "--site", "public", *home) == f"{drivetrain.folder / 'public/index.html'}\n"
    assert "nightly" in (drivetrain.folder / "public/index.html").read_text()
    assert "--site is of all runs, abc is one" in drivetrain.error("runs", "report", "abc", "--site", "public", *home)


@pytest.mark.parametrize("age", ["30", "d", "-1d"])
def test_a_wrong_age_is_refused(drivetrain: CommandLine, age: str) -> None:
    error = drivetrain.error("runs", "prune", "--keep", "1", f"--older-than={age}", "--home", drivetrain.home)
    assert f"An age of {age!r} is not understood" in error
