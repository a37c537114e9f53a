"""The runner's side of the ledger: one short transaction a change, in the order in which things happen.

An attempt goes Executing -> Publishing -> Succeeded. The transaction that writes Publishing is the moment at which the
step has succeeded: it holds the result and the list of moves that bring the outputs to their places, and a runner that
finds it after a kill only repeats the moves. Before it, the attempt never happened.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from drivetrain.base.masking import Masking
from drivetrain.processes import ProcessRecord
from drivetrain.run_store import statuses
from drivetrain.run_store.events import ExecutionStatus, StepStatus
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import Attempt, StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.run_values import enter_values
from drivetrain.run_store.schema import ArtifactEntry, Child, Move, ObjectEntry, dump, full_ledger_errors, open_to_write
from drivetrain.run_store.statuses import Facts, change, change_attempt, change_step

if TYPE_CHECKING:
    import sqlite3


class LedgerWriter(Ledger):
    """The ledger for the one process that runs an execution. Safe to use from its threads.

    What `masking` takes for a secret is not entered. A change of status and its event are one transaction.
    """

    facts: Facts | None = None
    """The execution's identity; from then on its changes of status are entered as events, too."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self.masking = Masking()

    def _open(self) -> sqlite3.Connection:
        return open_to_write(self.home.ledger)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Generator[sqlite3.Connection]:
        """`durable`: the commit outlasts the machine's power, with which else the last ones may go."""
        with self._guard, full_ledger_errors(self.home.ledger):
            self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself, after a full disk; a second rollback would be an error.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def begin(
        self,
        execution: str,
        pipeline: str,
        *,
        definition_hash: str,
        request_hash: str,
        parameters: Mapping[str, Any],
        steps: Sequence[tuple[str, str, str]],
        name: str | None = None,
        values: Iterable[tuple[str, str, Any]] = (),
    ) -> float:
        """Enter an execution, its steps (name, type, display name) and what it is found by (kind, name, value); gives
        the time of its start."""
        now = time.time()
        with self.transaction() as db:
            db.execute(
                "INSERT INTO executions VALUES (?, ?, 'Executing', ?, NULL, NULL, ?, ?, ?, 0, ?, NULL)",
                (execution, pipeline, now, definition_hash, request_hash, dump(self.masking(parameters)), name),
            )
            enter_values(db, execution, values)
            db.executemany(
                "INSERT INTO steps (execution, pipeline, position, name, type, display_name) VALUES (?, ?, ?, ?, ?, ?)",
                [(execution, pipeline, position, *step) for position, step in enumerate(steps)],
            )
            if self.facts is not None:
                self.facts = replace(self.facts, started=now)
            self._tell_execution(db, execution, None)
        return now

    def died(self, execution: str) -> None:
        """The runner of an execution that has no end was killed: it ended with its last sign of life."""
        with self.transaction() as db:
            sql = "UPDATE executions SET ended = MAX(started, ?) WHERE id = ? AND ended IS NULL"
            db.execute(sql, (self.last_sign(execution), execution))

    def reopen(self, execution: str, kept: Collection[str] = ()) -> None:
        """An execution goes on: what has not been done is to be done again, but the failures in `kept` stay."""
        with self.transaction() as db:
            before = _status_of(db, execution)
            statuses.reopen(db, execution, kept, time.time())
            if before != "Executing" or statuses.last_told(db, execution, None) == statuses.STOPPING:
                self._tell_execution(db, execution, before)

    def redefine(
        self,
        execution: str,
        *,
        definition_hash: str,
        request_hash: str,
        parameters: Mapping[str, Any],
        steps: Sequence[tuple[str, str, str]],
        again: Collection[str],
    ) -> None:
        """An execution goes on with another definition: enter its steps (name, type, display name), and forget what
        those in `again` gave. Their attempts stay, as a history."""
        with self.transaction() as db:
            change(
                db,
                "executions",
                {"id": execution},
                definition_hash=definition_hash,
                request_hash=request_hash,
                parameters=dump(self.masking(parameters)),
            )
            pipeline, attempts = _known_steps(db, execution)
            kept = {name for name, _, _ in steps} - set(again)
            iterated = db.execute("SELECT name, parent FROM steps WHERE execution = ?", (execution,)).fetchall()
            kept |= {name for name, parent in iterated if parent in kept}
            for name in set(attempts) - kept:
                for table in ("artifacts", "objects"):
                    db.execute(f"DELETE FROM {table} WHERE execution = ? AND step = ?", (execution, name))
                db.execute("DELETE FROM steps WHERE execution = ? AND name = ?", (execution, name))
            for position, (name, kind, title) in enumerate(steps):
                if name in kept:
                    db.execute(
                        "UPDATE steps SET position = ? WHERE execution = ? AND (name = ? OR parent = ?)",
                        (position, execution, name, name),
                    )
                else:
                    db.execute(
                        "INSERT INTO steps (execution, pipeline, position, name, type, display_name, attempts) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (execution, pipeline, position, name, kind, title, attempts.get(name, 0)),
                    )

    def stop(self, execution: str) -> None:
        """Record that the user asked to stop the execution, with events for it and its running steps."""
        if self.facts is None:
            return
        with self.transaction() as db:
            if _status_of(db, execution) != "Executing":
                return  # it has come to its end meanwhile
            statuses.tell_execution(db, self.facts, execution, "Executing", status=statuses.STOPPING)
            at_work = "SELECT name FROM steps WHERE execution = ? AND status = 'Executing' ORDER BY position, rowid"
            for (name,) in db.execute(at_work, (execution,)).fetchall():
                statuses.tell_step(db, self.facts, execution, name, "Executing", status=statuses.STOPPING)

    def finish(self, execution: str, status: ExecutionStatus, reason: str | None) -> None:
        with self.transaction() as db:
            before = _status_of(db, execution)
            change(db, "executions", {"id": execution}, status=status, ended=time.time(), reason=reason)
            self._tell_execution(db, execution, before)

    def start_step(
        self,
        execution: str,
        step: str,
        *,
        arguments: Mapping[str, Any],
        why: Sequence[str] = (),
        cache_key: str | None = None,
        cache_fields: Mapping[str, Any] | None = None,
    ) -> int:
        """Enter a first attempt at a step with its resolved arguments; gives the attempt's number (a resumed execution
        counts on). If an earlier attempt at a training had another key, this one may go on from its checkpoints: then
        no other execution is offered the result."""
        fields = None if cache_fields is None else dump(self.masking(cache_fields))
        with self.transaction() as db:
            offered = None if statuses.began_otherwise(db, execution, step, cache_key) else cache_key
            change_step(
                db,
                execution,
                step,
                status="Executing",
                started=time.time(),
                ended=None,
                why=dump(list(why)),
                arguments=dump(self.masking(arguments)),
                cache_key=offered,
                cache_fields=fields,
            )
            self._tell_step(db, execution, step)
            return statuses.next_attempt(db, execution, step, cache_key)

    def retry_step(self, execution: str, step: str) -> int:
        """Enter a further attempt of the same process at a step; gives its number."""
        with self.transaction() as db:
            return statuses.next_attempt(db, execution, step)

    def record_processes(self, execution: str, step: str, number: int, processes: Sequence[ProcessRecord]) -> None:
        """Enter the supervisors of an attempt, before they start anything."""
        with self.transaction() as db:
            given = dump([asdict(process) for process in processes])
            change_attempt(db, execution, step, number, processes=given)

    def publish(
        self,
        execution: str,
        step: str,
        number: int,
        *,
        response: Mapping[str, Any],
        value: str | None,
        moves: Sequence[Move],
        artifacts: Iterable[ArtifactEntry],
        objects: Iterable[ObjectEntry],
    ) -> None:
        """The step has succeeded: enter its result and where its outputs go. The disk has it before they move."""
        with self.transaction(durable=True) as db:
            kept = dump([asdict(move) for move in moves])
            change_attempt(db, execution, step, number, status="Publishing", moves=kept)
            change_step(db, execution, step, response=dump(self.masking(response)), value=value)
            ObjectEntry.enter(db, objects, execution, step)
            for entry in artifacts:
                producer = self.writer_of(entry.uri) if entry.flow == "input" else (None, None)
                db.execute(
                    "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(execution, step, entry.flow, entry.name, entry.uri, entry.digest, entry.stamp),
                        *(entry.files, entry.bytes, *producer),
                    ),
                )

    def end_attempt(
        self, execution: str, step: str, number: int, status: str, reason: str | None, error_type: str | None = None
    ) -> None:
        """An attempt failed, and another one will follow."""
        with self.transaction() as db:
            _end_attempt(db, execution, step, number, status, reason, error_type)

    def finish_step(
        self,
        execution: str,
        step: str,
        status: StepStatus,
        *,
        number: int | None = None,
        reason: str | None = None,
        error_type: str | None = None,
        value: str | None = None,
        response: Mapping[str, Any] | None = None,
    ) -> float:
        """A step has ended; gives the seconds since it was started, 0 when it never was. A `value` is said beside its
        status. A `response` is that of a ForEach, which has no attempts."""
        now = time.time()
        known = {"value": value, "response": None if response is None else dump(self.masking(response))}
        with self.transaction() as db:
            if number is not None:
                _end_attempt(db, execution, step, number, status, reason, error_type)
            given = {name: text for name, text in known.items() if text is not None}
            change_step(db, execution, step, status=status, ended=now, reason=reason, **given)
            self._tell_step(db, execution, step)
            started = db.execute(
                "SELECT started FROM steps WHERE execution = ? AND name = ?", (execution, step)
            ).fetchone()[0]
        return 0.0 if started is None else now - started

    def settle_step(
        self,
        execution: str,
        step: str,
        status: StepStatus,
        *,
        arguments: Mapping[str, Any] | None = None,
        response: Mapping[str, Any] | None = None,
        value: str | None = None,
        reason: str | None = None,
        cache_of: str | None = None,
        why: Sequence[str] = (),
        reused: bool = False,
    ) -> None:
        """A step that takes no time: a condition, a cached or stubbed one, one that is not executed; `reused` where
        an execution of other steps takes it over."""
        now = time.time()
        with self.transaction() as db:
            change_step(
                db,
                execution,
                step,
                status=status,
                started=None if status == "NotExecuted" else now,
                ended=now,
                arguments=dump(self.masking(arguments or {})),
                response=dump(self.masking(response or {})),
                value=value,
                reason=reason,
                cache_of=cache_of,
                why=dump(list(why)),
                cache_key=None,
                cache_fields=None,
            )
            if status != "NotExecuted" and not reused:
                self._tell_step(db, execution, step, before="Starting")

    def expand_step(
        self, execution: str, step: str, *, arguments: Mapping[str, Any], children: Sequence[Child]
    ) -> dict[str, StepRun]:
        """A ForEach begins, or goes on: enter the steps of its iterations, unless they are there. Gives them by name,
        as the ledger has them."""
        with self.transaction() as db:
            known = {row[0] for row in db.execute("SELECT name FROM steps WHERE execution = ?", (execution,))}
            given = dump(self.masking(arguments))
            change_step(db, execution, step, status="Executing", started=time.time(), ended=None, arguments=given)
            db.executemany(
                # Attempts stay as a history where a step was entered before.
                "INSERT INTO steps (execution, pipeline, position, name, type, display_name, parent, iteration, item, "
                "attempts) SELECT execution, pipeline, position, ?, ?, ?, name, ?, ?, (SELECT COALESCE(MAX(number), 0) "
                "FROM attempts WHERE execution = ? AND step = ?) FROM steps WHERE execution = ? AND name = ?",
                [
                    (
                        *(child.name, child.type, child.title, child.iteration, child.item),
                        *(execution, child.name, execution, step),
                    )
                    for child in children
                    if child.name not in known
                ],
            )
            self._tell_step(db, execution, step)
        return {row.name: row for row in self.steps(execution) if row.parent == step}

    def _tell_execution(self, db: sqlite3.Connection, execution: str, before: str | None) -> None:
        """Enter the event of the status that the execution has come to."""
        if self.facts is not None:
            statuses.tell_execution(db, self.facts, execution, before)

    def _tell_step(self, db: sqlite3.Connection, execution: str, step: str, before: str | None = None) -> None:
        """Enter the event of the status that a step has come to."""
        if self.facts is not None:
            statuses.tell_step(db, self.facts, execution, step, before)

    def note_step(self, execution: str, step: str, value: str) -> None:
        """Record a remark about a running step; its result replaces it."""
        with self.transaction() as db:
            change_step(db, execution, step, value=value)

    def log_metrics(self, execution: str, step: str, number: int, values: Sequence[tuple[Any, ...]]) -> None:
        """Enter metrics: (name, seconds, value), and the training's step where it is known."""
        with self.transaction() as db:
            db.executemany(
                "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(execution, step, number, *(*each, None)[:4]) for each in values],
            )

    def unfinished_attempts(self, execution: str) -> list[Attempt]:
        """Attempts that a dead runner left Executing or Publishing."""
        return [row for row in self.attempts(execution) if row.status in ("Executing", "Publishing")]

    def moves(self, attempt: Attempt) -> list[Move]:
        """The moves of the outputs of a Publishing attempt."""
        sql = "SELECT moves FROM attempts WHERE execution = ? AND step = ? AND number = ?"
        text = self.rows(sql, attempt.execution, attempt.step, attempt.number)[0][0]
        return [Move(**move) for move in json.loads(text)]


def _end_attempt(
    db: sqlite3.Connection,
    execution: str,
    step: str,
    number: int,
    status: str,
    reason: str | None,
    error_type: str | None,
) -> None:
    now = time.time()
    change_attempt(
        db, execution, step, number, status=status, ended=now, reason=reason, error_type=error_type, moves="[]"
    )


def _status_of(db: sqlite3.Connection, execution: str) -> str | None:
    row = db.execute("SELECT status FROM executions WHERE id = ?", (execution,)).fetchone()
    return None if row is None else row[0]


def _known_steps(db: sqlite3.Connection, execution: str) -> tuple[str, dict[str, int]]:
    """The pipeline of an execution, and how many attempts each of its steps has had."""
    pipeline: str = db.execute("SELECT pipeline FROM executions WHERE id = ?", (execution,)).fetchone()[0]
    return pipeline, dict(db.execute("SELECT name, attempts FROM steps WHERE execution = ?", (execution,)).fetchall())
