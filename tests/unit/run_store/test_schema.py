"""Ledgers of earlier versions are read as they are, and brought up to date by the next run without losing anything."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store import schema
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter

# As the first version wrote it.
FIRST = """
CREATE TABLE executions (
  id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, status TEXT NOT NULL, started REAL NOT NULL, ended REAL, reason TEXT,
  definition_hash TEXT NOT NULL, request_hash TEXT NOT NULL, parameters TEXT NOT NULL
);
CREATE TABLE steps (
  execution TEXT NOT NULL REFERENCES executions (id), name TEXT NOT NULL, pipeline TEXT NOT NULL,
  position INTEGER NOT NULL, type TEXT NOT NULL, display_name TEXT NOT NULL, status TEXT, started REAL, ended REAL,
  attempts INTEGER NOT NULL DEFAULT 0, cache_of TEXT, reason TEXT, value TEXT, why TEXT NOT NULL DEFAULT '[]',
  arguments TEXT NOT NULL DEFAULT '{}', response TEXT NOT NULL DEFAULT '{}',
  cache_key TEXT, cache_fields TEXT,
  PRIMARY KEY (execution, name)
);
CREATE TABLE attempts (
  execution TEXT NOT NULL, step TEXT NOT NULL, number INTEGER NOT NULL, status TEXT NOT NULL, started REAL NOT NULL,
  ended REAL, reason TEXT, error_type TEXT, processes TEXT NOT NULL DEFAULT '[]', moves TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (execution, step, number)
);
CREATE TABLE artifacts (
  execution TEXT NOT NULL, step TEXT NOT NULL, flow TEXT NOT NULL, name TEXT NOT NULL, uri TEXT NOT NULL,
  digest TEXT NOT NULL, stamp TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, from_execution TEXT,
  from_step TEXT,
  PRIMARY KEY (execution, step, flow, name)
);
CREATE TABLE objects (
  uri TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, execution TEXT NOT NULL,
  step TEXT NOT NULL,
  PRIMARY KEY (uri, execution, step)
);
CREATE TABLE metrics (
  execution TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL, seconds REAL NOT NULL,
  value REAL NOT NULL
);
INSERT INTO executions VALUES ('abc', 'old', 'Failed', 1.0, 2.0, 'train: broke', 'd', 'r', '{"epochs": 3}');
INSERT INTO steps (execution, pipeline, position, name, type, display_name, status, response)
  VALUES ('abc', 'old', 1, 'train', 'Training', 'train', 'Failed', '{"FailureReason": "broke"}'),
         ('abc', 'old', 0, 'prepare', 'Processing', 'Prepare', 'Succeeded', '{"a": 1}');
PRAGMA user_version = 1;
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    connection = sqlite3.connect(home.ledger)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(FIRST)
    connection.close()
    return home


def version(home: Home) -> int:
    connection = sqlite3.connect(home.ledger)
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


def test_a_reader_reads_an_old_ledger_without_changing_it(home: Home) -> None:
    with Ledger(home) as ledger:
        assert [row.name for row in ledger.steps("abc")] == ["prepare", "train"]
        step = ledger.step("abc", "prepare")
        assert (step.response, step.parent, step.iteration, step.item) == ({"a": 1}, None, None, None)
        assert ledger.events("abc") == []
        assert ledger.execution("latest").parameters == {"epochs": 3}
    assert version(home) == 1


def test_a_writer_migrates_an_old_ledger_without_loss(home: Home) -> None:
    with LedgerWriter(home) as ledger:
        assert version(home) == schema.VERSION
        assert [row.name for row in ledger.steps("abc")] == ["prepare", "train"]
        ledger.begin("new", "old", definition_hash="d", request_hash="r", parameters={}, steps=[("a", "Lambda", "a")])
    with LedgerWriter(home) as ledger:  # a second time there is nothing to do
        assert {row.id for row in ledger.executions()} == {"abc", "new"}
        assert ledger.step("new", "a").parent is None


def test_a_migrated_ledger_has_the_tables_of_a_new_one(home: Home, tmp_path: Path) -> None:
    fresh = Home(tmp_path / "fresh")
    fresh.create()

    def tables(home: Home) -> dict[str, list[str]]:
        LedgerWriter(home).close()
        connection = sqlite3.connect(home.ledger)
        try:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}
        finally:
            connection.close()

    assert tables(home) == tables(fresh)


def test_several_processes_may_migrate_at_once(home: Home) -> None:
    gate = threading.Barrier(4)
    failures: list[BaseException] = []

    def open_it() -> None:
        gate.wait()
        try:
            LedgerWriter(home).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert version(home) == schema.VERSION


def test_a_newer_ledger_is_refused(home: Home) -> None:
    connection = sqlite3.connect(home.ledger)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    for kind in (Ledger, LedgerWriter):
        with pytest.raises(UserError, match="was written by a newer Drivetrain"):
            kind(home)
