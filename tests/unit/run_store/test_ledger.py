"""The ledger: what is written is read, nothing is half written, and what is no ledger is refused."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.processes import ProcessRecord
from drivetrain.run_store import writer as ledger_writer
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import StoredObject
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.schema import ArtifactEntry, Move, ObjectEntry, full_ledger_errors, open_to_write
from drivetrain.run_store.writer import LedgerWriter

STEPS = [("prepare", "Processing", "Prepare"), ("train", "Training", "train")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def writer(home: Home) -> Iterator[LedgerWriter]:
    with LedgerWriter(home) as ledger:
        yield ledger


def begin(writer: LedgerWriter, id: str, **fields: Any) -> None:
    given = {"pipeline": "p", "definition_hash": "d", "request_hash": "r", **fields}
    pipeline = given.pop("pipeline")
    writer.begin(id, pipeline, parameters={"epochs": 3, "api_token": "canary"}, steps=STEPS, **given)


def artifact(flow: str, name: str, uri: str) -> ArtifactEntry:
    return ArtifactEntry(flow=flow, name=name, uri=uri, digest="d", stamp="s", files=1, bytes=2)


def test_a_home_without_runs_is_empty(tmp_path: Path) -> None:
    home = Home(tmp_path / "nowhere")
    with Ledger(home) as ledger:
        assert ledger.executions() == []
        with pytest.raises(UserError, match="Nothing has been run"):
            ledger.execution("latest")
    assert not home.root.exists()


def test_an_execution_is_found_by_its_id_the_beginning_of_it_or_latest(home: Home, writer: LedgerWriter) -> None:
    for id in ("aabb", "aacc", "bb%d"):
        begin(writer, id)
    with Ledger(home) as ledger:
        assert [row.id for row in ledger.executions()] == ["bb%d", "aacc", "aabb"]
        assert ledger.execution("latest").id == ledger.execution("latest~0").id == "bb%d"
        assert (ledger.execution("latest~1").id, ledger.execution("latest~2").id) == ("aacc", "aabb")
        for wrong, message in (("latest~3", "'latest~3': .* holds 3 runs"), ("lates", "Did you mean 'latest'")):
            with pytest.raises(UserError, match=message):
                ledger.execution(wrong)
        assert ledger.execution("aab").id == "aabb"
        assert ledger.execution("aabb").parameters == {"epochs": 3, "api_token": "***"}
        for wrong, message in (("aa", "Several executions"), ("x", "No execution 'x'"), ("", "No execution")):
            with pytest.raises(UserError, match=message):
                ledger.execution(wrong)
        with pytest.raises(UserError, match="No execution '%'"):
            ledger.execution("%")
        with pytest.raises(UserError, match="Did you mean 'train'"):
            ledger.step("aabb", "tarin")


def test_a_clock_set_back_does_not_change_the_latest_run(
    home: Home, writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 2_000_000_000.0
    monkeypatch.setattr(ledger_writer.time, "time", lambda: clock)
    for id in ("aaaa", "aabb"):
        begin(writer, id)
        number = writer.start_step(id, "prepare", arguments={}, cache_key="k", cache_fields={})
        writer.publish(id, "prepare", number, response={}, value=None, moves=(), artifacts=(), objects=())
        writer.finish_step(id, "prepare", "Succeeded", number=number)
        clock -= 3600
    with Ledger(home) as ledger:
        assert [row.id for row in ledger.executions()] == ["aabb", "aaaa"]
        assert ledger.execution("latest").id == "aabb"
        assert ledger.latest_unfinished("r") == "aabb"
        with pytest.raises(UserError, match="aabb, aaaa"):
            ledger.execution("aa")
        earlier = ledger.earlier_success("p", "prepare", "k")
        assert earlier is not None and earlier.execution == "aabb"


def test_an_execution_without_a_living_runner_is_shown_as_interrupted(home: Home, writer: LedgerWriter) -> None:
    begin(writer, "e")
    with Ledger(home) as ledger:
        assert ledger.execution("e").status == "Interrupted"
        with home.lock("e"):
            assert ledger.execution("e").status == "Executing"
            with pytest.raises(UserError, match="is being run by another process"), home.lock("e"):
                pass
        assert ledger.execution("e").status == "Interrupted"
        writer.finish("e", "Succeeded", None)
        assert ledger.execution("e").status == "Succeeded"


def test_the_life_of_a_step(home: Home, writer: LedgerWriter) -> None:
    begin(writer, "e")
    number = writer.start_step("e", "prepare", arguments={"Environment": {"PASSWORD": "canary"}}, why=("because",))
    record = ProcessRecord(1, 2, "boot", "token")
    writer.record_processes("e", "prepare", number, [record])
    writer.end_attempt("e", "prepare", number, "Failed", "it broke", "SageMaker.JOB_INTERNAL_ERROR")
    number = writer.retry_step("e", "prepare")
    assert number == 2
    assert [row.number for row in writer.unfinished_attempts("e")] == [2]
    writer.publish(
        "e",
        "prepare",
        number,
        response={"ProcessingJobStatus": "Completed"},
        value="v",
        moves=[Move("publish/0", "s3://b/out")],
        artifacts=[artifact("output", "out", "s3://b/out")],
        objects=[ObjectEntry("s3://b/out/x", "abc", 2, 77)],
    )
    [publishing] = writer.unfinished_attempts("e")
    assert (publishing.status, writer.moves(publishing)) == ("Publishing", [Move("publish/0", "s3://b/out")])
    there = StoredObject("x", "s3://b/out/x", Path("x"), 2, 77, 99)
    assert writer.checksum(there) is None  # nobody has looked at it where it lies now
    with writer.transaction() as db:
        ObjectEntry.enter(db, [ObjectEntry("s3://b/out/x", "abc", 2, 77, 99)], "e", "prepare")
    seconds = writer.finish_step("e", "prepare", "Succeeded", number=number)
    assert seconds >= 0 and writer.unfinished_attempts("e") == []
    with Ledger(home) as ledger:
        step = ledger.step("e", "prepare")
        assert (step.status, step.attempts, step.why, step.value) == ("Succeeded", 2, ("because",), "v")
        assert step.arguments == {"Environment": {"PASSWORD": "***"}}
        assert step.seconds is not None
        first, second = ledger.attempts("e", "prepare")
        assert (first.status, first.reason, first.processes) == ("Failed", "it broke", (record,))
        assert second.status == "Succeeded"
        assert ledger.checksum(there) == "abc"
        assert ledger.checksum(replace(there, mtime_ns=78)) is None
        assert ledger.checksum(replace(there, ctime_ns=98)) is None
        assert ledger.step("e", "train").status == "Waiting"


def test_lineage_names_who_last_wrote_an_object_or_the_folder_around_it(writer: LedgerWriter) -> None:
    for id in ("one", "two"):
        begin(writer, id)
        number = writer.start_step(id, "prepare", arguments={})
        writer.publish(
            id,
            "prepare",
            number,
            response={},
            value=None,
            moves=[],
            artifacts=[artifact("output", "out", f"s3://b/{id}/out/"), artifact("output", "same", "s3://b/same")],
            objects=[],
        )
    assert writer.writer_of("s3://b/one/out/deep/x.csv") == ("one", "prepare")
    assert writer.writer_of("s3://b/one/out") == ("one", "prepare")
    assert writer.writer_of("s3://b/same/x") == ("two", "prepare")
    assert writer.writer_of("s3://b/one/other") == (None, None)
    assert writer.writer_of("s3://b") == (None, None)


def test_reopening_drops_unfinished_steps(writer: LedgerWriter) -> None:
    begin(writer, "e")
    writer.settle_step("e", "prepare", "Cached", response={"a": 1}, cache_of="older")
    writer.start_step("e", "train", arguments={})
    writer.finish("e", "Stopped", "stopped by the user")
    writer.reopen("e")
    assert [(step.name, step.status) for step in writer.steps("e")] == [("prepare", "Cached"), ("train", "Waiting")]
    assert [attempt.status for attempt in writer.attempts("e")] == ["Interrupted"]
    assert writer.start_step("e", "train", arguments={}) == 2


def test_idle_time_between_resumes_is_not_counted(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended and went on; its runner was killed, after a last metric and a later line of a log, and it went on."""
    now = 1000.0
    monkeypatch.setattr(ledger_writer.time, "time", lambda: now)
    begin(writer, "e")
    now = 1010.0
    writer.finish("e", "Failed", "broke")
    now = 5000.0
    writer.reopen("e")
    first = writer.start_step("e", "train", arguments={})
    writer.log_metrics("e", "train", first, [("loss", 7.0, 9.0)])
    log = writer.home.logs("e", "train", first) / "127.0.0.1.log"
    log.parent.mkdir(parents=True)
    log.touch()
    os.utime(log, (5009.0, 5009.0))
    now = 9000.0
    writer.died("e")
    now = 9001.0
    writer.reopen("e")
    now = 9004.0
    writer.finish("e", "Succeeded", None)
    row = writer.execution("e")
    assert row.idle == (5000 - 1010) + (9001 - 5009) and row.seconds == 10 + 9 + 3
    assert [(one.status, one.ended) for one in writer.attempts("e")] == [("Interrupted", 5009.0)]
    now = 9000.0  # the clock was set back
    writer.reopen("e")
    assert writer.execution("e").idle == row.idle
    writer.died("e")
    assert writer.execution("e").ended == 5007.0, "of the last metric"


def test_metrics_are_those_of_the_last_attempt(writer: LedgerWriter) -> None:
    begin(writer, "e")
    first = writer.start_step("e", "train", arguments={})
    writer.log_metrics("e", "train", first, [("loss", 0.5, 9.0)])
    second = writer.retry_step("e", "train")
    writer.log_metrics("e", "train", second, [("loss", 0.1, 3.0), ("loss", 0.2, 2.0)])
    assert [(row.seconds, row.value) for row in writer.metrics("e", "train")] == [(0.1, 3.0), (0.2, 2.0)]
    every = writer.metrics("e", "train", since=1)
    assert [(row.attempt, row.value) for row in every] == [(1, 9.0), (2, 3.0), (2, 2.0)]


def test_a_long_metric_keeps_its_extremes(writer: LedgerWriter) -> None:
    begin(writer, "e")
    number = writer.start_step("e", "train", arguments={})
    spikes = {1234: 50.0, 1235: -50.0, 9999: 7.0}
    values = [("loss", float(n), spikes.get(n, 1 / (n + 1))) for n in range(10_000)]
    writer.log_metrics("e", "train", number, [*values, ("epoch", 0.5, 1.0), ("epoch", 9999.5, 2.0)])
    kept = writer.metrics("e", most=100)
    losses = {row.seconds: row.value for row in kept if row.name == "loss"}
    assert 50 <= len(losses) <= 101 and {0.0, 1234.0, 1235.0, 9999.0} <= set(losses)
    assert all(value == values[int(at)][2] for at, value in losses.items())
    assert list(losses) == sorted(losses)
    assert [row.value for row in kept if row.name == "epoch"] == [1.0, 2.0]
    assert len(writer.metrics("e", most=10_000)) == 10_002


def test_metrics_are_read_while_more_are_logged(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(writer, "e")
    number = writer.start_step("e", "train", arguments={})
    writer.log_metrics("e", "train", number, [("loss", 1.0, 0.5)])
    query = writer.rows

    def rows(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        found = query(sql, *values)
        if "count(*)" in sql:
            writer.log_metrics("e", "train", number, [("epoch", 2.0, 1.0), ("loss", 2.0, 0.25)])
        return found

    monkeypatch.setattr(writer, "rows", rows)
    assert [(row.name, row.value) for row in writer.metrics("e")] == [("loss", 0.5), ("loss", 0.25)]


def test_the_latest_run_of_a_request_counts_as_interrupted_only_while_it_has_not_ended(writer: LedgerWriter) -> None:
    begin(writer, "one", request_hash="r1")
    assert writer.latest_unfinished("r1") == "one"
    begin(writer, "two", request_hash="r1")
    writer.finish("two", "Succeeded", None)
    assert writer.latest_unfinished("r1") is None
    assert writer.latest_unfinished("r2") is None


def test_a_failed_transaction_leaves_nothing(writer: LedgerWriter) -> None:
    begin(writer, "e")
    with pytest.raises(sqlite3.IntegrityError):
        begin(writer, "e")
    number = writer.start_step("e", "prepare", arguments={})

    def entries() -> Iterator[ArtifactEntry]:
        yield artifact("output", "out", "s3://b/out")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        writer.publish("e", "prepare", number, response={"x": 1}, value="v", moves=[], artifacts=entries(), objects=[])
    assert writer.artifacts("e") == []
    assert writer.step("e", "prepare").response == {}
    assert [attempt.status for attempt in writer.attempts("e")] == ["Executing"]


def test_files_that_are_no_ledger_and_newer_ledgers_are_refused(home: Home) -> None:
    home.ledger.write_text("something else entirely, and long enough to be looked at" * 40)
    for kind in (Ledger, LedgerWriter):
        with pytest.raises(UserError, match="cannot be used as a ledger"):
            kind(home)
    home.ledger.unlink()
    with closing(sqlite3.connect(home.ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for kind in (Ledger, LedgerWriter):
        with pytest.raises(UserError, match="newer Drivetrain"):
            kind(home)


def test_a_damaged_ledger_is_reported(home: Home) -> None:
    with LedgerWriter(home) as writer:
        for number in range(200):
            begin(writer, f"e{number:03d}")
    damaged = bytearray(home.ledger.read_bytes())
    damaged[4096:] = bytes(len(damaged) - 4096)
    home.ledger.write_bytes(damaged)
    with Ledger(home) as ledger, pytest.raises(UserError, match=r"cannot be used as a ledger: .*Move it aside"):
        ledger.executions()


def test_a_ledger_that_is_a_folder_is_refused(home: Home) -> None:
    home.ledger.mkdir()
    for kind in (Ledger, LedgerWriter):
        with pytest.raises(UserError, match="cannot be used as a ledger"):
            kind(home)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (sqlite3.SQLITE_FULL, "Free some space"),
        (sqlite3.SQLITE_IOERR_WRITE, "Check the disk's free space, quota and health"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "End the program that has locked it"),
        (sqlite3.SQLITE_READONLY, "Check the permissions of the file and of its folder"),
    ],
)
def test_only_a_full_disk_asks_to_free_space(home: Home, code: int, advice: str) -> None:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    with (
        pytest.raises(UserError, match=rf"could not be written: it failed\. {advice}; "),
        full_ledger_errors(home.ledger),
    ):
        raise error


def test_unencodable_text_is_kept_as_an_escape(home: Home, writer: LedgerWriter) -> None:
    begin(writer, "a")
    writer.start_step("a", "train", arguments={"word": "x\ud800y"})
    with Ledger(home) as ledger:
        assert ledger.step("a", "train").arguments == {"word": "x\ud800y"}


def test_a_home_that_cannot_be_created_is_refused() -> None:
    with pytest.raises(UserError, match=r"^/proc/nowhere cannot be used: .*Give another folder by --home"):
        Home("/proc/nowhere").create()


def test_readers_cannot_write(home: Home, writer: LedgerWriter) -> None:
    begin(writer, "e")
    with Ledger(home) as ledger, pytest.raises(sqlite3.OperationalError, match="readonly"):
        ledger._connection.execute("DELETE FROM executions")


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        Home(tmp_path / "file").create()


def test_the_homes_place_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home().root == tmp_path / ".drivetrain"
    monkeypatch.setenv("DRIVETRAIN_HOME", str(tmp_path / "other"))
    assert Home().root == tmp_path / "other"
    assert Home(tmp_path / "third").root == tmp_path / "third"


def test_two_first_runs_at_once_wait_for_each_other(home: Home) -> None:
    with closing(sqlite3.connect(home.ledger, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")  # as another run does, that makes the tables
        opened = pool.submit(open_to_write, home.ledger)
        assert not wait([opened], timeout=0.3).done
        other.execute("COMMIT")
        with closing(opened.result()) as ledger:
            assert ledger.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("kind", "keys", "offered"),
    [
        ("train", "ab", False),
        ("train", "aa", True),
        ("train", "aba", False),
        ("prepare", "ab", True),
    ],
)
def test_a_training_with_another_key_is_not_offered(
    home: Home, writer: LedgerWriter, kind: str, keys: str, offered: bool
) -> None:
    begin(writer, "aabb")
    for key in keys:
        number = writer.start_step("aabb", kind, arguments={}, cache_key=key, cache_fields={})
        writer.redefine("aabb", definition_hash="d", request_hash="r", parameters={}, steps=STEPS, again=[kind])
    number = writer.start_step("aabb", kind, arguments={}, cache_key=keys[-1], cache_fields={})
    writer.publish("aabb", kind, number, response={}, value=None, moves=(), artifacts=(), objects=())
    writer.finish_step("aabb", kind, "Succeeded", number=number)
    with Ledger(home) as ledger:
        assert (ledger.earlier_success("p", kind, keys[-1]) is not None) is offered
