"""The registry of this machine: tables in a SQLite file, which the local runner's ledger shares.

A registration is one transaction, and the database itself refuses a content twice in a group. So whatever is killed,
repeated or run at the same time, a content has exactly one version, and a version all of its parts or none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base import partition_of
from drivetrain.registry.backends._backend import Backend, NewVersion, chosen, no_group
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import (
    Approval,
    ModelEvent,
    ModelGroup,
    ModelVersion,
    RegistryError,
    checked_approval,
    checked_group,
    checked_hash,
    checked_tag,
)

if TYPE_CHECKING:
    import sqlite3  # imported where it is used: it takes 5 ms, and most programs that import this folder open nothing

# How long another process may write before we give up; a registration takes milliseconds.
BUSY_SECONDS = 30.0
ACCOUNT = "000000000000"

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS model_groups (
        name TEXT PRIMARY KEY,
        created_at REAL NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS model_versions (
        group_name TEXT NOT NULL REFERENCES model_groups (name),
        version INTEGER NOT NULL,
        content_hash TEXT NOT NULL,
        status TEXT NOT NULL,
        reason TEXT,
        package TEXT NOT NULL,
        metrics TEXT NOT NULL,
        execution TEXT,
        created_at REAL NOT NULL,
        modified_at REAL NOT NULL,
        PRIMARY KEY (group_name, version),
        UNIQUE (group_name, content_hash)
    )""",
    """CREATE TABLE IF NOT EXISTS model_events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        group_name TEXT NOT NULL,
        version INTEGER NOT NULL,
        at REAL NOT NULL,
        status TEXT NOT NULL,
        previous_status TEXT,
        updated_fields TEXT NOT NULL,
        reason TEXT,
        by_whom TEXT,
        FOREIGN KEY (group_name, version) REFERENCES model_versions (group_name, version)
    )""",
    """CREATE TABLE IF NOT EXISTS model_group_tags (
        group_name TEXT NOT NULL REFERENCES model_groups (name),
        name TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (group_name, name)
    )""",
    """CREATE TABLE IF NOT EXISTS model_repeats (
        group_name TEXT NOT NULL,
        version INTEGER NOT NULL,
        execution TEXT NOT NULL,
        PRIMARY KEY (group_name, version, execution)
    )""",
)
_VERSION_COLUMNS = (
    "group_name, version, content_hash, status, reason, package, metrics, execution, v.created_at, modified_at"
)
_EVENT_COLUMNS = "id, group_name, version, at, status, previous_status, updated_fields, reason, by_whom"


def connect(location: str) -> LocalRegistry:
    """The registry in the database at `location`; without one, in $DRIVETRAIN_HOME or ./.drivetrain."""
    default = Path(os.environ.get("DRIVETRAIN_HOME") or ".drivetrain") / "ledger.db"
    path = Path(location) if location else default
    return LocalRegistry(path, named=path != default)


class LocalRegistry(Backend):
    """A registry in the SQLite file at `path`, which the first registration creates.

    Every call opens the file anew, so one object serves any number of threads, and a fork shares nothing.

    If the user `named` the path, its folder must exist before "no champion" is reported: the path may be mistyped.
    """

    keeps_history = True

    def __init__(self, path: Path | str, region: str = "us-east-1", *, named: bool = False) -> None:
        self.path = Path(path)
        self.named = named
        self.region = region

    @property
    def objects(self) -> Path:
        """The folder of the runs beside it that stands for S3."""
        return self.path.parent / "s3"

    def arn(self, group: str, version: int) -> str:
        """The name that a version has in pipelines."""
        return f"arn:{partition_of(self.region)}:sagemaker:{self.region}:{ACCOUNT}:model-package/{group}/{version}"

    def _register(self, new: NewVersion) -> tuple[int, bool]:
        group, content_hash, execution = new.group, new.content_hash, new.execution
        numbers, request = json.dumps(new.metrics, sort_keys=True), json.dumps(new.request)
        if self.exists() and (known := self.find(group, content_hash)) is not None:
            self._mend(known, new.record)
            if execution is not None and execution != known.execution:
                with self._writing() as database:
                    row = (group, known.version, execution)
                    database.execute("INSERT OR IGNORE INTO model_repeats VALUES (?, ?, ?)", row)
            return known.version, False
        with self._writing() as database:
            found = database.execute(
                "SELECT version FROM model_versions WHERE group_name = ? AND content_hash = ?", (group, content_hash)
            ).fetchone()
            if found is not None:
                return found[0], False
            now = time.time()
            database.execute("INSERT OR IGNORE INTO model_groups VALUES (?, ?)", (group, now))
            (version,) = database.execute(
                "SELECT coalesce(max(version), 0) + 1 FROM model_versions WHERE group_name = ?", (group,)
            ).fetchone()
            database.execute(
                "INSERT INTO model_versions VALUES (?, ?, ?, ?, NULL, ?, ?, ?, ?, ?)",
                (group, version, content_hash, new.status, request, numbers, execution, now, now),
            )
            _record(database, group, version, now, new.status, None, (), None, None)
            return version, True

    def _mend(self, known: ModelVersion, record: ModelRecord) -> None:
        """Let a version with damaged files point to the files of another record of the same content."""
        from drivetrain.registry.intact import is_mended_by, moved

        if not is_mended_by(known, record, self.objects):
            return
        with self._writing() as database:
            own = "WHERE group_name = ? AND version = ?"
            at = (known.group, known.version)
            (package,) = database.execute(f"SELECT package FROM model_versions {own}", at).fetchone()
            made = json.dumps(moved(json.loads(package), known.artifact, record.artifact))
            values = (made, time.time(), *at)
            database.execute(f"UPDATE model_versions SET package = ?, modified_at = ? {own}", values)

    def groups(self) -> list[ModelGroup]:
        rows = self._rows(
            f"""SELECT {_VERSION_COLUMNS}, g.created_at,
                (SELECT count(*) FROM model_versions WHERE group_name = g.name),
                (SELECT max(version) FROM model_versions WHERE group_name = g.name AND status = 'Approved')
            FROM model_groups g JOIN model_versions v ON v.group_name = g.name
            WHERE version = (SELECT max(version) FROM model_versions WHERE group_name = g.name)
            ORDER BY g.name"""
        )
        return [
            ModelGroup(
                name=row[0],
                num_versions=row[-2],
                latest=self._version(row),
                approved=row[-1],
                created_at=row[-3],
            )
            for row in rows
        ]

    def versions(self, group: str) -> list[ModelVersion]:
        rows = self._rows(
            f"SELECT {_VERSION_COLUMNS} FROM model_versions v WHERE group_name = ? ORDER BY version DESC", group
        )
        if not rows:
            there = [name for (name,) in self._rows("SELECT name FROM model_groups")]
            raise no_group(f"{self.path}{'' if self.exists() else ' (there is no such file)'}", group, there)
        query = "SELECT version, execution FROM model_repeats WHERE group_name = ? ORDER BY rowid"
        repeats: dict[int, list[str]] = {}
        for version, execution in self._rows(query, group, of="model_repeats"):
            repeats.setdefault(version, []).append(execution)
        return [replace(self._version(row), repeated_by=tuple(repeats.get(row[1], ()))) for row in rows]

    def version(self, group: str, which: int | str = "latest") -> ModelVersion:
        return chosen(group, which, self.versions(group))

    def champion(self, group: str) -> ModelVersion | None:
        return self._one("group_name = ? AND status = 'Approved' ORDER BY version DESC LIMIT 1", group)

    def approved(self, group: str) -> list[ModelVersion]:
        query = f"SELECT {_VERSION_COLUMNS} FROM model_versions v WHERE group_name = ? AND status = 'Approved'"
        return [self._version(row) for row in self._rows(f"{query} ORDER BY version DESC", group)]

    def find(self, group: str, content_hash: str) -> ModelVersion | None:
        return self._one("group_name = ? AND content_hash = ?", group, checked_hash(content_hash))

    def set_status(
        self, group: str, version: int, status: str, *, reason: str | None = None, by: str | None = None
    ) -> ModelVersion:
        wanted = checked_approval(status)
        current = self.version(group, version)  # says what is wrong before anything is written
        with self._writing() as database:
            previous, told = database.execute(
                "SELECT status, reason FROM model_versions WHERE group_name = ? AND version = ?", (group, version)
            ).fetchone()
            changed = tuple(
                name
                for name, before, after in (
                    ("ModelApprovalStatus", previous, wanted),
                    ("ApprovalDescription", told, reason),
                )
                if before != after
            )
            if changed:
                now = time.time()
                database.execute(
                    "UPDATE model_versions SET status = ?, reason = ?, modified_at = ? "
                    "WHERE group_name = ? AND version = ?",
                    (wanted, reason, now, group, version),
                )
                _record(database, group, version, now, wanted, previous, changed, reason, by)
        return self.version(group, current.version)

    def tags(self, group: str) -> dict[str, str]:
        query = "SELECT name, text FROM model_group_tags WHERE group_name = ? ORDER BY name"
        return dict(self._rows(query, checked_group(group), of="model_group_tags"))

    def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
        self.versions(group)  # says what is wrong before anything is written
        with self._writing() as database:
            query = "SELECT text FROM model_group_tags WHERE group_name = ? AND name = ?"
            (before,) = database.execute(query, (group, name)).fetchone() or ("",)
            text = change(before)
            checked_tag(name, text)
            database.execute("INSERT OR REPLACE INTO model_group_tags VALUES (?, ?, ?)", (group, name, text))

    def events(self, group: str | None = None, *, after: int = 0) -> list[ModelEvent]:
        rows = self._rows(
            f"SELECT {_EVENT_COLUMNS} FROM model_events WHERE id > ? AND (? IS NULL OR group_name = ?) ORDER BY id",
            after,
            group,
            group,
        )
        return [
            ModelEvent(
                id=row[0],
                group=row[1],
                version=row[2],
                at=row[3],
                status=row[4],
                previous_status=row[5],
                updated_fields=tuple(json.loads(row[6])),
                reason=row[7],
                by=row[8],
            )
            for row in rows
        ]

    def _version(self, row: tuple[Any, ...]) -> ModelVersion:
        return ModelVersion(
            group=row[0],
            version=row[1],
            arn=self.arn(row[0], row[1]),
            content_hash=row[2],
            status=row[3],
            reason=row[4],
            record=record_of(json.loads(row[5])),
            metrics=json.loads(row[6]),
            execution=row[7],
            created_at=row[8],
            modified_at=row[9],
        )

    def _one(self, condition: str, *values: str) -> ModelVersion | None:
        if self.named and not self.exists() and not self.path.parent.is_dir():
            raise RegistryError(
                f"there is no folder {self.path.parent} for the registry {self.path}. Correct the path, or make the "
                "folder."
            )
        rows = self._rows(f"SELECT {_VERSION_COLUMNS} FROM model_versions v WHERE {condition}", *values)
        return self._version(rows[0]) if rows else None

    def _rows(self, query: str, *values: Any, of: str = "model_events") -> list[tuple[Any, ...]]:
        """The rows of a query; none if there is no table `of`: then nothing of the kind was written yet."""
        if not self.exists():
            return []
        with self._connected(create=False) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (of,)).fetchone():
                return []
            return database.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, alone with the file: committed at the end, rolled back by any error or by death."""
        try:
            if not self.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RegistryError(f"{self.path.parent} cannot be created: {error.strerror}.") from None
        with self._connected(create=True) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                for statement in _SCHEMA:
                    database.execute(statement)
                yield database
            except BaseException:
                if database.in_transaction:  # a full disk has ended it already
                    database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def exists(self) -> bool:
        """True if there is a database, perhaps one without models.

        Raises:
            RegistryError: something else is in its place, or it cannot be looked at.
        """
        try:
            there = self.path.exists()
        except OSError as error:
            raise RegistryError(f"{self.path} cannot be read: {error.strerror}.") from None
        if there and not self.path.is_file():
            raise RegistryError(f"{self.path} is no file. Give the path of a database, such as .drivetrain/ledger.db.")
        return there

    @contextmanager
    def _connected(self, *, create: bool) -> Generator[sqlite3.Connection]:
        import sqlite3

        # Readers may write too: the next process that opens the file rolls back what a killed process left half done.
        uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        try:
            database = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
            try:
                yield database
            finally:
                database.close()
        except sqlite3.DatabaseError as error:
            from drivetrain.registry.backends._local_errors import mendable

            message = mendable(error, self.path, BUSY_SECONDS)
            if message is None:
                raise
            raise RegistryError(message) from None


def _record(
    database: sqlite3.Connection,
    group: str,
    version: int,
    at: float,
    status: Approval,
    previous: str | None,
    changed: tuple[str, ...],
    reason: str | None,
    by: str | None,
) -> None:
    database.execute(
        "INSERT INTO model_events (group_name, version, at, status, previous_status, updated_fields, reason, by_whom) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (group, version, at, status, previous, json.dumps(changed), reason, by),
    )
