"""Stop, go on, run again and roll back from a page: what is said, what is done, and that it is done once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from urllib.parse import urlencode

import pytest

import drivetrain as dt
from drivetrain.registry.approving import make_champion
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.ui import starting
from tests.unit.client.test_client import FILE
from tests.unit.ui.test_server import Asked

KEY = "k" * 22


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("actions")
    (folder / "actions_runs.py").write_text(FILE)
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def runs(place: Path) -> list[dt.Run]:
    return [dt.run("actions_runs.py", quiet=True, rows=rows) for rows in (3, 5, 6)]


@pytest.fixture(scope="module")
def ask(runs: list[dt.Run]) -> Iterator[Asked]:
    asked = Asked(Home())
    yield asked
    asked.close()


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were asked to stop."""
    found: list[str] = []

    def stop(home: Home, execution: str) -> str:
        found.append(execution)
        return execution

    monkeypatch.setattr("drivetrain.ui.actions.stop", stop)
    return found


class Begun:
    """In the place of a process."""

    every: list[tuple[list[str], Path]]
    id: str | None = None
    ended: int | None = None

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.every.append((list(words), folder))

    def execution(self) -> str | None:
        return self.id

    def code(self) -> int | None:
        return self.ended

    def said(self) -> str:
        return "error: <no> such pipeline"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> type[Begun]:
    monkeypatch.setattr(Begun, "every", [], raising=False)
    monkeypatch.setattr(starting, "Start", Begun)
    return Begun


def set_status(ask: Asked, run: dt.Run, status: str) -> None:
    with LedgerWriter(ask.home) as ledger, ledger.transaction() as db:
        ended = "NULL" if status == "Executing" else "started + 1"
        db.execute(f"UPDATE executions SET status = ?, ended = {ended} WHERE id = ?", (status, run.id))


def test_a_run_is_stopped_once_however_often_the_button_is_pressed(
    ask: Asked, runs: list[dt.Run], stopped: list[str]
) -> None:
    """A second signal would end its steps at once, without a checkpoint."""
    run, address = runs[0], f"/runs/{runs[0].id}/stop"
    with ask.home.lock(run.id):
        set_status(ask, run, "Executing")
        assert "Stop…" in ask(f"/runs/{run.id}") and "Run again…" not in ask(f"/runs/{run.id}")
        page = ask(address)
        assert "saves a checkpoint first" in page and f"drivetrain runs stop {run.id}" in page and stopped == []
        for _ in range(3):
            ask(address, code=303, body="")
            assert ask.headers["Location"] == f"/runs/{run.id}"
        assert stopped == [run.id]
        page = ask(address)
        assert "ended at once" in page and 'name="now" value="yes"' in page
        ask(address, code=303, body="now=yes")
        assert stopped == [run.id, run.id]
        with LedgerWriter(ask.home) as ledger:
            ledger.facts = Facts(run.id, "small", "us-east-1", "000000000000", 0.0)
            ledger.stop(run.id)
        assert "End at once…" in ask(f"/runs/{run.id}")
    set_status(ask, run, "Succeeded")
    assert "there is nothing to stop" in ask(address, code=409)


def test_a_run_that_ends_while_stop_is_pressed_is_said_to_have_ended(ask: Asked, runs: list[dt.Run]) -> None:
    assert "there is nothing to stop" in ask(f"/runs/{runs[0].id}/stop", code=409, body="")
    assert "there is nothing to stop" in ask(f"/runs/{runs[0].id}/stop", code=409, body="now=yes")


def test_a_run_is_started_again_once_as_the_command_line_does(
    ask: Asked, runs: list[dt.Run], place: Path, begun: type[Begun]
) -> None:
    address = f"/runs/{runs[1].id}/again"
    page = ask(address)
    assert "take their earlier results" in page and "no result and no checkpoint" in page
    assert "drivetrain run actions_runs.py --set rows=5" in page
    keys = re.findall(r'name="key" value="([^"]+)"', page)
    assert len(set(keys)) == 2 and begun.every == []
    for _ in range(2):
        ask(address, code=303, body=urlencode({"key": keys[0]}))
        assert ask.headers["Location"] == f"/started/{keys[0]}"
    ask(address, code=303, body=urlencode({"key": keys[1], "fresh": "yes"}))
    home = ["--json", "--home", str(ask.home.root)]
    again = ["run", "actions_runs.py", "--set", "rows=5"]
    assert begun.every == [([*again, *home], place), ([*again, "--fresh", *home], place)]
    for key in ("", "short", "<script>" * 4):
        assert "has no key" in ask(address, code=400, body=urlencode({"key": key}))


def test_the_progress_of_a_start_is_shown(
    ask: Asked, runs: list[dt.Run], begun: type[Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(f"/runs/{runs[1].id}/again", code=303, body=urlencode({"key": KEY}))
    assert "The run begins." in ask(f"/started/{KEY}")
    tag = str(ask.headers["ETag"])
    monkeypatch.setattr(begun, "ended", 2)
    assert "error: &lt;no&gt; such pipeline" in ask(f"/started/{KEY}", X_Live="1", If_None_Match=tag)
    monkeypatch.setattr(begun, "id", runs[1].id)
    assert f'href="/runs/{runs[1].id}"' in ask(f"/started/{KEY}")
    assert "has not started that run" in ask("/started/other", code=404)


def test_the_run_id_is_found_after_output_of_the_pipeline_file() -> None:
    event = b'{"event": "execution_started", "execution": "abc"}'
    assert starting.execution_in(b'loading\n[1]\n{"a": 1}\n\xff\n' + event + b"\n{") == "abc"
    assert starting.execution_in(b"loading\n" + event) is None  # the line is not whole yet


def test_a_failed_run_can_be_resumed(ask: Asked, runs: list[dt.Run], place: Path, begun: type[Begun]) -> None:
    run = runs[2]
    assert "cannot go on" in ask(f"/runs/{run.id}/resume", code=409)
    set_status(ask, run, "Failed")
    assert "Go on…" in ask(f"/runs/{run.id}")
    assert "finished steps do not run again" in ask(f"/runs/{run.id}/resume")
    ask(f"/runs/{run.id}/resume", code=303, body=urlencode({"key": "resumed" * 4}))
    assert begun.every == [(["runs", "resume", run.id, "--json", "--home", str(ask.home.root)], place)]
    set_status(ask, run, "Succeeded")
    ask(f"/runs/{run.id}/resume", code=303, body=urlencode({"key": "resumed" * 4}))  # the same form: it was started
    assert "cannot go on" in ask(f"/runs/{run.id}/resume", code=409, body=urlencode({"key": "other" * 5}))
    assert len(begun.every) == 1


def test_a_rollback_is_done_once(ask: Asked) -> None:
    registry, address = LocalRegistry(ask.home.ledger), "/models/small/rollback"
    make_champion(registry, "small", 1)
    assert "Roll back" not in ask("/models")
    assert "the only approved version" in ask(address, code=404)
    for version in (2, 3):
        make_champion(registry, "small", version)
    assert f'action="{address}"' in ask("/models")
    page = ask(address)
    assert (
        "Version 3 is the champion" in page and 'value="2"' in page and "newer approved versions are rejected" in page
    )
    form = urlencode({"champion": 3, "to": 2, "reason": "wrong at night"})
    ask(address, code=303, body=form)
    assert ask.headers["Location"] == "/models?group=small&version=2"
    assert "by now" in ask(address, code=409, body=form)
    assert "by now" in ask(address, code=409, body=urlencode({"champion": 3, "to": 1}))
    assert "approved before it are: 1." in ask(address, code=404, body=urlencode({"champion": 2, "to": 3}))
    assert "Choose the version" in ask(address, code=400, body=urlencode({"champion": 2, "to": "x"}))
    assert [registry.version("small", number).status for number in (1, 2, 3)] == ["Approved", "Approved", "Rejected"]
    assert registry.version("small", 2).reason == "wrong at night"


def test_forms_of_other_pages_are_refused(
    ask: Asked, runs: list[dt.Run], stopped: list[str], begun: type[Begun]
) -> None:
    run = f"/runs/{runs[1].id}"
    for path in (f"{run}/stop", f"{run}/again", f"{run}/resume", "/models/small/rollback"):
        form = urlencode({"key": KEY, "now": "yes", "champion": 2, "to": 1})
        for origin in ("", "null", "http://attacker.example"):
            ask(path, code=403, body=form, Origin=origin)
        ask(path, code=403, body=form, Host="attacker.example")
        ask(path, code=403, body=form, Cookie="")
    ask(f"{run}/again?key={KEY}&fresh=yes")  # a GET asks, and does nothing
    assert stopped == [] and begun.every == []
