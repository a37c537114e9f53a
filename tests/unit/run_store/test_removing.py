"""What is thrown away with a run, and what keeps it: a model, a result that another run took, a run at work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.base.errors import UserError
from drivetrain.run_store import removing
from drivetrain.run_store.home import Home
from drivetrain.run_store.removing import plan_removal, remove, seconds_of, to_prune
from tests.fixtures.many_runs import write_runs
from tests.unit.client.test_client import FILE


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "removed_runs.py").write_text(FILE)
    with chdir(tmp_path):
        yield tmp_path


def run(**settings: object) -> dt.Run:
    return dt.run("removed_runs.py", quiet=True, **settings)


def test_a_removed_run_takes_the_files_that_only_it_wrote(place: Path) -> None:
    home = Home()
    gone = run(rows=3, least=0.9)  # registers nothing
    stays = run(rows=4, least=0.9)
    written = gone.steps["fit"].outputs["model"] / "model.txt"
    removal = plan_removal(home, [gone.id[:6]])
    assert [row.id for row in removal.runs] == [gone.id] and removal.kept == {}
    own = [file for file in home.run(gone.id).rglob("*") if file.is_file()]
    assert removal.bytes == sum(file.stat().st_size for file in [*own, *home.objects.rglob(f"*/{gone.id}/*/*.*")])
    assert written.exists()  # it is a plan
    remove(home, removal)
    assert not written.exists() and not home.run(gone.id).exists() and not list(home.objects.rglob(f"*{gone.id}*"))
    assert [each.id for each in dt.runs()] == [stays.id]
    with pytest.raises(UserError, match=f"No execution '{gone.id}'"):
        gone.report()
    assert not home.run(gone.id).exists()
    assert (stays.steps["fit"].outputs["model"] / "model.txt").exists() and stays.metrics["accuracy"] == 0.4
    again = run(rows=3, least=0.9)  # no result of it is taken from the cache
    assert again.steps["fit"].status == "Succeeded" and again.metrics["accuracy"] == 0.3


def test_needed_runs_stay_with_a_reason(place: Path) -> None:
    home = Home()
    first = run(rows=3, least=0.9)
    took = run(rows=3, least=0.8)  # takes both steps from the first
    model = run(rows=5)
    kept = plan_removal(home, [first.id, model.id]).kept
    assert kept == {
        first.id: f"step fit of run {took.id} comes from it",
        model.id: "small version 1 is its model",
    }
    both = plan_removal(home, [first.id, took.id])
    assert both.kept == {} and {row.id for row in both.runs} == {first.id, took.id}
    after = run(rows=5, least=0.2)  # its model is that of the earlier run, whose steps it takes
    assert plan_removal(home, [after.id]).kept == {}
    with home.lock(after.id):  # as a runner does
        home_ledger(home, "UPDATE executions SET status = 'Executing' WHERE id = ?", after.id)
        kept = plan_removal(home, [after.id, first.id]).kept
        assert kept[after.id] == "it goes on" and kept[first.id].startswith(f"run {after.id} of the same pipeline")
        with pytest.raises(UserError, match=r"is needed by now: .* Nothing was removed"):
            remove(home, both)
    assert len(dt.runs()) == 4


def home_ledger(home: Home, sql: str, *values: object) -> None:
    from drivetrain.run_store.writer import LedgerWriter

    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        db.execute(sql, values)


def test_a_killed_removal_is_finished_by_the_next_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home()
    gone, other = run(rows=3, least=0.9), run(rows=4, least=0.9)
    removal = plan_removal(home, [gone.id])
    with monkeypatch.context() as patched:
        patched.setattr(removing, "finish_removal", lambda home: None)  # the process ends before the files go
        remove(home, removal)
    assert home.run(gone.id).exists() and json.loads((home.root / "removing.json").read_text())["runs"] == [gone.id]
    remove(home, plan_removal(home, [other.id]))
    assert not home.run(gone.id).exists() and not list(home.objects.rglob(f"*{gone.id}*"))
    assert not (home.root / "removing.json").exists() and len(dt.runs()) == 0


def test_the_newest_and_those_with_a_name_are_not_pruned(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_runs(home, 12)
    home_ledger(home, "UPDATE executions SET name = 'best' WHERE id = '000000000000'")
    go, stay = to_prune(home, keep=4)
    assert sorted(map(int, go)) == [1, 2, 3] and stay == {"000000000000": "it is called best"}
    go, stay = to_prune(home, keep=2, pipeline="vision")
    assert sorted(map(int, go)) == [1, 3, 5, 7] and stay == {}
    home_ledger(home, "UPDATE executions SET started = unixepoch() WHERE id > '000000000002'")
    assert sorted(map(int, to_prune(home, keep=0, older_than_s=seconds_of("1h"))[0])) == [1, 2]
    assert (seconds_of("12h"), seconds_of("30d"), seconds_of("2W")) == (43_200, 2_592_000, 1_209_600)
    with pytest.raises(UserError, match=r"An age of '3 months' is not understood. Give hours, days or weeks: 12h"):
        seconds_of("3 months")
