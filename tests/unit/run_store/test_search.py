"""Runs by their values: what a condition holds for, in which order, and what ten thousand of them cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import moment
from drivetrain.cli.outcome import headline, listed
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.run_values import enter_values, values_of
from drivetrain.run_store.search import search
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.telling.content.from_ledger import run_facts
from tests.fixtures.many_runs import FIRST_START, write_runs

MANY = 10_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Twelve runs of two pipelines; number 5 is at work no more, and has a name and a note."""
    home = Home(tmp_path_factory.mktemp("search"))
    write_runs(home, 12)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        db.execute("UPDATE executions SET note = 'It''s a \"Straße\"' WHERE id = '000000000008'")
        db.execute("UPDATE executions SET name = 'über' WHERE id = '000000000009'")
        db.execute("UPDATE executions SET status = 'Executing', ended = NULL, name = 'odd', note = 'Too Short' "
                   "WHERE id = '000000000005'")  # fmt: skip
        enter_values(db, "000000000001", [("setting", "spot", True), ("metric", "odd", 1), ("setting", "odd", 7)])
        enter_values(db, "000000000002", [("tag", "version", "1.10"), ("setting", "odd", 0)])
        enter_values(db, "000000000003", [("setting", "either", 3)])
        enter_values(db, "000000000004", [("setting", "either", "auto")])
    return home


def numbers(home: Home, where: str | None = None, sort: str | None = None, **more: int | str) -> list[int]:
    with Ledger(home) as ledger:
        found = search(ledger, where=where, sort=sort, **{"limit": 100, **more})  # type: ignore[arg-type]
    return [int(row.id) for row in found.rows]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("epochs >= 10", [11, 10]),
        ("accuracy < 0.1", [1, 0]),
        ("epochs = 3 or epochs = '4'", [4, 3]),
        ("tag.team = WORDS and epochs < 4", [3, 1]),
        ("status = failed", [11, 7, 3]),
        ("not status = succeeded", [11, 7, 5, 3]),
        ("status = interrupted", [5]),
        ("status = Executing", []),
        ("status ~ fail", [11, 7, 3]),
        ("status != 'completed with failures' and status != Succeeded", [11, 7, 5, 3]),
        ("name = odd and note ~ short", [5]),
        ("note ~ STRASSE or name = ÜBER", [9, 8]),
        ('note = "it\'s a ""STRAẞE"""', [8]),
        ("spot = true", [1]),
        ("spot != false", [1]),  # of runs that have it
        ("tag.version = none and epochs < 4", [3, 1, 0]),
        ("tag.version != none", [2]),
        ("tag.version > 1.05", [2]),
        ("either < x", [4]),  # the other's is a number
        ("epochs = many", []),
        ("metric.odd = 1", [1]),
        ("setting.odd < 5", [2]),
        ("parameter.MinAccuracy = 0.9 and pipeline = vision and epochs > 8", [11, 9]),
        ("id = 000000000007", [7]),
        ("seconds > 29 and epochs = 6", [6]),
        ("seconds > 60", []),  # number 5 was killed after 7 s
        ("seconds < 8 and ended > 2023-11-14", [5]),
        ("ended = none", []),
        ("started < 2023-11-14T22:15:00+00:00", [1, 0]),
        ("team = vision' or 1=1 --'", None),
    ],
)
def test_conditions_select_the_matching_runs(home: Home, where: str, expected: list[int] | None) -> None:
    if expected is None:
        with pytest.raises(UserError):
            numbers(home, where)
    else:
        assert numbers(home, where) == expected


def test_runs_sort_by_any_value_with_missing_values_last(home: Home) -> None:
    assert numbers(home)[:3] == [11, 10, 9]
    assert numbers(home, sort="-accuracy", limit=2) == [11, 10] and numbers(home, sort="accuracy", limit=2) == [0, 1]
    assert numbers(home, sort="accuracy", limit=2, offset=10) == [10, 11]
    assert numbers(home, sort="odd", limit=3) == [2, 1, 11]  # the metric of one comes before its setting
    assert numbers(home, sort="-setting.odd", limit=2) == [1, 2]
    assert numbers(home, sort="seconds", limit=1) == [5]  # the time that lists show of one that was killed
    assert numbers(home, sort="-started", limit=1) == [11] and numbers(home, pipeline="vision", limit=1) == [11]
    with Ledger(home) as ledger:
        assert search(ledger, where="epochs < 6", limit=2).total == 6


def test_a_running_run_is_found_by_the_status_word_of_lists(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_runs(home, 3)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        db.execute("UPDATE executions SET status = 'Executing', ended = NULL WHERE id = '000000000001'")
    with home.lock("000000000001"):
        assert numbers(home, "status = running") == numbers(home, "status = EXECUTING") == [1]
        assert numbers(home, "status != running") == [2, 0] and numbers(home, "status = interrupted") == []
        assert numbers(home, "seconds > 1e6") == [1]
    with home.lock("000000000001"):
        with LedgerWriter(home) as ledger:
            ledger.facts = Facts("000000000001", "vision", "us-east-1", "000000000000", 0.0)
            ledger.stop("000000000001")
        assert numbers(home, "status = stopping") == numbers(home, "status = executing") == [1]
        assert numbers(home, "status = running") == []
        with Ledger(home) as ledger:
            shown = listed(ledger.executions())
            row, facts = ledger.execution("000000000001"), run_facts(ledger, "000000000001")
        assert [line.split()[3] for line in shown.splitlines()[1:]] == ["succeeded", "stopping", "succeeded"]
        assert row.status == facts.status == "Executing" and "vision stopping for" in headline(facts)
    assert numbers(home, "status = interrupted") == [1]  # it was killed before it had ended
    with pytest.raises(
        UserError, match=r"'runing' is no status of a run. Allowed: running, stopping, interrupted, suc"
    ):
        numbers(home, "status = runing")
    with pytest.raises(UserError, match=r"'zz' is no status of a run.*\n  status ~ zz\n           \^"):
        numbers(home, "status ~ zz")
    with pytest.raises(UserError, match="status is compared by =, != or ~"):
        numbers(home, "status < failed")


def test_a_time_matches_the_text_that_lists_show(home: Home) -> None:
    shown = moment(FIRST_START + 60 * 7)
    assert numbers(home, f"started ~ '{shown}'") == [7]
    assert 7 in numbers(home, f"started ~ {shown[:7]}") and numbers(home, "started ~ 2024-11") == []
    assert numbers(home, f"ended ~ '{moment(FIRST_START + 60 * 5 + 7)}'") == [5]  # its last sign of life


def test_an_unknown_name_is_refused_with_its_position(home: Home, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no run has 'acuracy'. Did you mean 'accuracy'\?.*\n  epochs > 3 and acuracy"):
        numbers(home, "epochs > 3 and acuracy > 1")
    with pytest.raises(UserError, match=r"sort: no run has 'acuracy'. Did you mean 'accuracy'"):
        numbers(home, sort="-acuracy")
    with pytest.raises(UserError, match=r"started is a time, and 'yesterday' is not. Give 2026-11-20"):
        numbers(home, "started > yesterday")
    with pytest.raises(UserError, match="seconds is a number, and 'long' is not"):
        numbers(home, "seconds > long")
    with pytest.raises(
        UserError, match=r"epochs is a number in every run, and 'abc' is not\.\n  epochs > abc\n           \^"
    ):
        numbers(home, "epochs > abc")
    assert numbers(Home(tmp_path), "anything = 3") == []  # nothing has been run
    assert numbers(Home(tmp_path), "anything > abc") == []


def test_a_tag_keeps_its_text(home: Home) -> None:
    with Ledger(home) as ledger:
        found = values_of(ledger, ["000000000002", "000000000003"])
    assert found["000000000002"]["tag"] == {"team": "vision", "version": "1.10"}
    assert found["000000000003"]["setting"]["epochs"] == 3


@pytest.mark.slow
def test_ten_thousand_runs_are_searched_in_a_second_of_cpu(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_runs(home, MANY)
    start = time.process_time()
    with Ledger(home) as ledger:
        found = search(ledger, where="accuracy > 0.5 and tag.team = vision and not status = failed", sort="-accuracy")
        values_of(ledger, [row.id for row in found.rows])
    used = time.process_time() - start
    assert found.total == 2_499 and int(found.rows[0].id) == MANY - 2
    assert used <= 1.0, used
