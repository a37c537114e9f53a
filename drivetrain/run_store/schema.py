"""The tables of the ledger, what is entered in them, how its file is opened, and one clear error where it cannot be
written.

WAL with synchronous=NORMAL: a transaction is in the file's journal when it commits, so that a killed process loses
nothing and corrupts nothing; only a crash of the whole machine may lose the last ones, and leaves the file whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    import sqlite3


VERSION = 7
_BUSY_TIMEOUT_S = 10.0
_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) (\(.*?\n\));", re.DOTALL)

IS_UNHEALTHY = """EXISTS (
    SELECT 1 FROM steps s WHERE s.execution = e.id AND s.status IN ('Succeeded', 'Cached') AND (s.value LIKE
    'unhealthy: %' OR s.value LIKE '%; unhealthy: %' OR s.value LIKE 'warning: unhealthy: %'))
"""
"""The executions `e` with a step whose `unhealthy_part` is not empty, as SQL."""

TABLES = """
CREATE TABLE IF NOT EXISTS executions (
  id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, status TEXT NOT NULL, started REAL NOT NULL, ended REAL, reason TEXT,
  definition_hash TEXT NOT NULL, request_hash TEXT NOT NULL, parameters TEXT NOT NULL, idle REAL, name TEXT, note TEXT
);
CREATE TABLE IF NOT EXISTS run_values (
  name TEXT NOT NULL, execution TEXT NOT NULL, kind TEXT NOT NULL, value, text TEXT,
  PRIMARY KEY (name, execution, kind)
);
CREATE INDEX IF NOT EXISTS run_values_by_execution ON run_values (execution);
CREATE INDEX IF NOT EXISTS executions_by_pipeline ON executions (pipeline);
CREATE TABLE IF NOT EXISTS steps (
  execution TEXT NOT NULL REFERENCES executions (id), name TEXT NOT NULL, pipeline TEXT NOT NULL,
  position INTEGER NOT NULL, type TEXT NOT NULL, display_name TEXT NOT NULL, status TEXT, started REAL, ended REAL,
  attempts INTEGER NOT NULL DEFAULT 0, cache_of TEXT, reason TEXT, value TEXT, why TEXT NOT NULL DEFAULT '[]',
  arguments TEXT NOT NULL DEFAULT '{}', response TEXT NOT NULL DEFAULT '{}',
  cache_key TEXT, cache_fields TEXT, parent TEXT, iteration INTEGER, item TEXT,
  PRIMARY KEY (execution, name)
);
CREATE INDEX IF NOT EXISTS steps_by_success ON steps (pipeline, name, status, ended);
CREATE INDEX IF NOT EXISTS steps_by_origin ON steps (cache_of) WHERE cache_of IS NOT NULL;
CREATE TABLE IF NOT EXISTS attempts (
  execution TEXT NOT NULL, step TEXT NOT NULL, number INTEGER NOT NULL, status TEXT NOT NULL, started REAL NOT NULL,
  ended REAL, reason TEXT, error_type TEXT, processes TEXT NOT NULL DEFAULT '[]', moves TEXT NOT NULL DEFAULT '[]',
  cache_key TEXT,
  PRIMARY KEY (execution, step, number)
);
CREATE TABLE IF NOT EXISTS artifacts (
  execution TEXT NOT NULL, step TEXT NOT NULL, flow TEXT NOT NULL, name TEXT NOT NULL, uri TEXT NOT NULL,
  digest TEXT NOT NULL, stamp TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, from_execution TEXT,
  from_step TEXT,
  PRIMARY KEY (execution, step, flow, name)
);
CREATE INDEX IF NOT EXISTS artifacts_by_uri ON artifacts (uri, flow);
CREATE TABLE IF NOT EXISTS objects (
  uri TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, execution TEXT NOT NULL,
  step TEXT NOT NULL, ctime_ns INTEGER,
  PRIMARY KEY (uri, execution, step)
);
CREATE INDEX IF NOT EXISTS objects_by_step ON objects (execution, step);
CREATE TABLE IF NOT EXISTS metrics (
  execution TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL, seconds REAL NOT NULL,
  value REAL NOT NULL, position REAL
);
CREATE INDEX IF NOT EXISTS metrics_by_step ON metrics (execution, step);
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, execution TEXT NOT NULL, step TEXT, time REAL NOT NULL, event TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_by_execution ON events (execution, number);
"""
# What a ledger of an earlier version lacks, beside whole tables: columns, in the order in which they were added.
_ADDED_COLUMNS: Mapping[int, tuple[tuple[str, str, str], ...]] = {
    2: (("steps", "parent", "TEXT"), ("steps", "iteration", "INTEGER"), ("steps", "item", "TEXT")),
    3: (("executions", "idle", "REAL"),),
    4: (("executions", "name", "TEXT"), ("executions", "note", "TEXT")),
    5: (("metrics", "position", "REAL"),),
    6: (("objects", "ctime_ns", "INTEGER"),),
    7: (("attempts", "cache_key", "TEXT"),),
}


def open_to_write(path: Path) -> sqlite3.Connection:
    """The ledger for the one process that writes; made when it is not there yet, for its owner's eyes only.

    Raises:
        UserError: the file is no ledger, or a newer Drivetrain wrote it.
    """
    import sqlite3

    # Autocommit: transactions are opened by hand (BEGIN IMMEDIATE), so that each write says where it starts and ends.
    with unreadable_errors(path):
        with contextlib.suppress(OSError):  # it is there, or SQLite says what is wrong
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        _check_version(path, version)
        if version < VERSION:
            _write_ahead(connection)
            _bring_up_to_date(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise _unreadable(path, error) from error
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers read while another process writes.

    SQLite does not wait where two processes change this at once, as first runs do that are started together: one of
    them is refused immediately, whatever its time limit. To begin a transaction does wait.

    Raises:
        sqlite3.OperationalError: another process holds the file for longer than the time limit.
    """
    import sqlite3

    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")


def open_to_read(path: Path) -> sqlite3.Connection:
    """The ledger for readers; an empty one in memory while nothing has been run."""
    connection = _opened_to_read(path)
    # SQLite's own lower() and NOCASE know ASCII only.
    connection.create_function("casefold", 1, _casefold, deterministic=True)
    return connection


def _casefold(value: str | bytes | float | None) -> str | bytes | float | None:
    return value.casefold() if isinstance(value, str) else value


def _opened_to_read(path: Path) -> sqlite3.Connection:
    import sqlite3

    if not path.exists():
        connection = sqlite3.connect(":memory:")
        connection.executescript(TABLES)
        return connection
    # Not mode=ro: a reader of a WAL file must be able to make the shared-memory file beside it.
    with unreadable_errors(path):
        if _is_still(path):
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        else:
            connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        _check_version(path, version)
        if version == 0:  # the writer that makes it is at work, or only models were registered
            connection.close()
            connection = sqlite3.connect(":memory:")
            connection.executescript(TABLES)
        elif version < VERSION:
            _read_as_new(connection, version)
        connection.execute("PRAGMA query_only=1")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise _unreadable(path, error) from error
    return connection


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Make the tables, and give those of an earlier version what they lack; what they hold stays."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have done it while this one waited.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for table, column, kind in _lacking(version):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        for statement in filter(None, map(str.strip, TABLES.split(";"))):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={max(version, VERSION)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _lacking(version: int) -> list[tuple[str, str, str]]:
    """The columns (table, name, type) that a ledger of a version has not got; an empty file gets whole tables."""
    return [added for since, columns in _ADDED_COLUMNS.items() if 0 < version < since for added in columns]


def _read_as_new(connection: sqlite3.Connection, version: int) -> None:
    """Let a reader see an earlier version's ledger, which it may not change, as one of this version: views of its own
    stand before the tables that have grown, and empty tables for those that came."""
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    added: dict[str, list[str]] = {}
    for table, column, _ in _lacking(version):
        added.setdefault(table, []).append(column)
    for table, columns in added.items():
        empty = ", ".join(f"NULL AS {column}" for column in columns)
        connection.execute(f"CREATE TEMP VIEW {table} AS SELECT rowid, *, {empty} FROM main.{table}")
    for name, columns in _TABLE.findall(TABLES):
        if name not in there:
            connection.execute(f"CREATE TEMP TABLE {name} {columns}")


def _is_still(path: Path) -> bool:
    """Return True if the ledger lies where nothing can be written (an archive), and holds all that its runs wrote."""
    journal = path.with_name(path.name + "-wal")
    return not os.access(path.parent, os.W_OK) and not (journal.exists() and journal.stat().st_size)


@contextmanager
def unreadable_errors(path: Path) -> Generator[None]:
    """Turn SQLite's error about a ledger that cannot be read into a clear one.

    Raises:
        UserError: in place of SQLite's error: it is damaged, locked, or may not be opened.
    """
    import sqlite3

    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _unreadable(path, error) from error


def _check_version(path: Path, version: int) -> None:
    if version > VERSION:
        raise UserError(f"{path} was written by a newer Drivetrain (schema {version}, known {VERSION}). Upgrade it.")


def advice(error: sqlite3.Error) -> str:
    """Advice on an error of the file's surroundings."""
    import sqlite3

    match error.sqlite_errorcode & 0xFF:
        case sqlite3.SQLITE_FULL:
            return "Free some space"
        case sqlite3.SQLITE_IOERR:  # a failing disk, or one that is full where SQLite does not look for that
            return "Check the disk's free space, quota and health"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "End the program that has locked it"
        case _:
            return "Check the permissions of the file and of its folder"


def _unreadable(path: Path, error: sqlite3.Error) -> UserError:
    import sqlite3

    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return UserError(f"{path} cannot be read or written: {error}. {advice(error)}; then run it again.")
    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UserError(f"{path} is locked by another program, for more than {_BUSY_TIMEOUT_S:.0f} s. End that first.")
    return UserError(f"{path} cannot be used as a ledger: {error}. Move it aside, or give another folder by --home.")


class LedgerFullError(UserError):
    """The ledger could not be written. What was in it is untouched."""


@contextmanager
def full_ledger_errors(path: Path) -> Generator[None]:
    """Turn SQLite's error about a ledger that cannot be written into a clear one.

    Raises:
        LedgerFullError: in place of SQLite's error.
    """
    import sqlite3

    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerFullError(
            f"The ledger {path} could not be written: {error}. {advice(error)}; what it holds is whole, and the run "
            "can be resumed."
        ) from error


@dataclass(frozen=True, kw_only=True)
class ArtifactEntry:
    """An input or output of a step to be entered. `digest` is the sha256 over the sorted (name, sha256) of its objects,
    `stamp` the same over (bytes, mtime, name), which costs no reading."""

    flow: str
    name: str
    uri: str
    digest: str
    stamp: str
    files: int
    bytes: int


@dataclass(frozen=True)
class ObjectEntry:
    """A written object to be entered."""

    uri: str
    sha256: str
    bytes: int
    mtime_ns: int
    ctime_ns: int | None = None
    """When the file was last changed in any way, at its final place; None until that has been looked at. Programs can
    set a file's mtime, and not this."""

    @staticmethod
    def enter(db: sqlite3.Connection, objects: Iterable[ObjectEntry], execution: str = "", step: str = "") -> None:
        """Enter objects that a step has written, or again with other times. Those that were uploaded belong to no
        step."""
        db.executemany(
            "INSERT OR REPLACE INTO objects (uri, sha256, bytes, mtime_ns, ctime_ns, execution, step) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(each.uri, each.sha256, each.bytes, each.mtime_ns, each.ctime_ns, execution, step) for each in objects],
        )


@dataclass(frozen=True)
class Move:
    """Bring `staged` (a path below the attempt's folder) to `uri`."""

    staged: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class Child:
    """A step of one iteration of a ForEach, to be entered; `item` is what the iteration is for, as text."""

    name: str
    type: str
    title: str
    iteration: int
    item: str


def dump(value: Any) -> str:
    """The JSON of a value, as short as it can be."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair (from the JSON that a program wrote) cannot be encoded; as an escape it survives.
    return text if text.isascii() else re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)
