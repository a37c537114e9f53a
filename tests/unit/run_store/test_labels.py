"""What a run is called: which run a text means, and which names are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.home import Home
from drivetrain.run_store.labels import change_name, change_note, change_tags, checked_name
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.removing import plan_removal
from drivetrain.run_store.run_values import values_of
from drivetrain.run_store.writer import LedgerWriter


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Two runs, abc123 and def456."""
    home = Home(tmp_path)
    home.create()
    with LedgerWriter(home) as ledger:
        for id in ("abc123", "def456"):
            ledger.begin(id, "p", definition_hash="d", request_hash="r", parameters={}, steps=[])
            ledger.finish(id, "Succeeded", None)
    return home


def test_a_name_wins_over_the_beginning_of_another_id(home: Home) -> None:
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        # As of a run that was started after the name was given.
        db.execute("UPDATE executions SET name = 'abc' WHERE id = 'def456'")
        db.execute("UPDATE executions SET name = 'def456' WHERE id = 'abc123'")
    with Ledger(home) as ledger:
        found = {text: ledger.execution(text).id for text in ("abc", "abc1", "ABC1", "abc123", "def", "def456")}
    assert found == {
        "abc": "def456",
        "abc1": "abc123",
        "ABC1": "abc123",
        "abc123": "abc123",
        "def": "def456",
        "def456": "def456",  # a complete id comes before a name
    }
    assert [row.id for row in plan_removal(home, ["abc"]).runs] == ["def456"]


def test_secrets_in_notes_and_tags_are_masked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    change_tags(home, "abc123", {"db_password": "geheim", "of": "hunter2hunter2", "as": "--password=geheim", "n": "12"})
    change_note(home, "abc123", "too warm; export API_KEY=geheim and hunter2hunter2")
    with Ledger(home) as ledger:
        assert values_of(ledger, ["abc123"])["abc123"]["tag"] == {
            "db_password": "***",
            "of": "***",
            "as": "--password=***",
            "n": "12",
        }
        assert ledger.execution("abc123").note == "too warm; export API_KEY=*** and ***"


def test_a_name_with_a_secret_in_it_is_refused_without_saying_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    for call in (
        lambda: checked_name("of-hunter2hunter2"),
        lambda: change_tags(home, "abc123", {"hunter2hunter2": "x"}),
    ):
        with pytest.raises(UserError, match=r"cannot be called (of-)?\*\*\*: `\*\*\*` stands for what looks") as said:
            call()
        assert "hunter2" not in str(said.value)


@pytest.mark.parametrize("name", ["abc", "ABC", "abc123", "d"])
def test_a_name_that_is_the_beginning_of_an_id_is_refused(home: Home, name: str) -> None:
    change_name(home, "def456", "kept")
    with pytest.raises(UserError, match=f"'{name}' is the beginning of the id of run (abc123|def456). Give another"):
        change_name(home, "kept", name)
    with Ledger(home) as ledger:
        assert ledger.execution("kept").id == "def456"
