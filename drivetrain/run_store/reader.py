"""Read runs from the ledger. Only a runner writes it (writer.py)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.formatting import count
from drivetrain.processes import ProcessRecord
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import Artifact, Attempt, EventRow, MetricRow, ObjectRow, Run, StepRun
from drivetrain.run_store.run_values import values_of
from drivetrain.run_store.schema import IS_UNHEALTHY, ObjectEntry, open_to_read, unreadable_errors

if TYPE_CHECKING:
    import sqlite3
    from typing import Self

    from drivetrain.run_store.objects import StoredObject
from dataclasses import replace

_LATEST = re.compile(r"latest(?:~([0-9]{1,4}))?")
_EXECUTION = "id, pipeline, status, started, ended, idle, reason, definition_hash, parameters, name, note"
BEGINS = "substr(id, 1, length(?1)) = ?1 COLLATE NOCASE"
"""The SQL condition for ids of executions that begin with a text."""
_LAST_TOLD = """
    SELECT json_extract(event, '$.detail.currentPipelineExecutionStatus') FROM events
    WHERE execution = ? AND step IS NULL ORDER BY number DESC LIMIT 1
"""
_STEP = (
    "execution, name, type, display_name AS title, status, started, ended, attempts, cache_of, reason, value, why, "
    "arguments, response, parent, iteration, item"
)
_ATTEMPT = "execution, step, number, status, started, ended, reason, error_type, processes"
_ARTIFACT = "execution, step, flow, name, uri, digest, files, bytes, from_execution, from_step"


class _Thinned:
    """The values that `Ledger.metrics` gives of a metric's `count` values, the last column of its rows."""

    def __init__(self, count: int, most: int) -> None:
        self._kept: set[tuple[Any, ...]] = set()
        self._number, self._count = 0, count
        self._stretches = count if count <= most else most // 2
        self._stretch = -1
        self._least: tuple[Any, ...] = ()
        self._greatest = self._last = self._least

    def add(self, row: tuple[Any, ...]) -> None:
        stretch = self._number * self._stretches // self._count
        self._number += 1
        self._last = row
        if stretch != self._stretch:
            self._kept |= {self._least, self._greatest}
            self._stretch, self._least, self._greatest = stretch, row, row
        elif row[-1] < self._least[-1]:
            self._least = row
        elif row[-1] > self._greatest[-1]:
            self._greatest = row

    def kept(self) -> set[tuple[Any, ...]]:
        return {*self._kept, self._least, self._greatest, self._last} - {()}


class Ledger:
    """The ledger of a home, for readers; empty while nothing has been run.

    Raises:
        UserError: the file is no ledger, or a newer Drivetrain wrote it.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self._connection = self._open()
        # One connection, used by the runner's threads one at a time.
        self._guard = threading.RLock()

    def _open(self) -> sqlite3.Connection:
        return open_to_read(self.home.ledger)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def executions(self, limit: int = 20, pipeline: str | None = None) -> list[Run]:
        """The latest executions, newest first: in the order in which they were entered, whatever the clock said."""
        where, values = ("WHERE pipeline = ?", [pipeline]) if pipeline else ("", [])
        return self.selected(f"{where} ORDER BY rowid DESC LIMIT ?", *values, limit)

    def selected(self, rest: str, *values: Any) -> list[Run]:
        """Executions by the rest of a query that reads them as `e`."""
        sql = f"SELECT {_EXECUTION}, {IS_UNHEALTHY} FROM executions e {rest}"
        return [self._execution(row) for row in self.rows(sql, *values)]

    def execution(self, id: str) -> Run:
        """One execution by `latest`, `latest~2` (two runs before it), its id, its name, else the beginning of its id.

        Raises:
            UserError: there is none, or several begin so.
        """
        if counted := _LATEST.fullmatch(id):
            before = int(counted.group(1) or 0)
            found = self.executions(limit=before + 1)
            if not found:
                raise UserError(f"{self.home.nothing_run()} Start with `drivetrain run`.")
            if len(found) <= before:
                raise UserError(f"No execution {id!r}: {self.home.root} holds {count(len(found), 'run')}.")
            return found[before]
        for called in ("id = ?1", "name = ?1", BEGINS) if id else ():
            rows = self.selected(f"WHERE {called} ORDER BY rowid DESC LIMIT 10", id)
            if len(rows) == 1:
                return rows[0]
            if rows:
                raise UserError(f"Several executions are called {id!r}: {', '.join(row.id for row in rows)}.")
        known = [row[0] for row in self.rows("SELECT id FROM executions ORDER BY rowid DESC LIMIT 12")]
        raise UserError(f"No execution {id!r} in {self.home.root}. {did_you_mean(id, ['latest', *known])}")

    def run(self, id: str) -> Run:
        """One run with its tags and its steps, found as `execution` finds it.

        Raises:
            UserError: there is none, or several begin so.
        """
        run = self.execution(id)
        tries: dict[str, list[Attempt]] = {}
        steps = self.steps(run.id)
        for attempt in self.attempts(run.id):
            tries.setdefault(attempt.step, []).append(attempt)
        return replace(
            run,
            tags=values_of(self, [run.id])[run.id].get("tag", {}),
            steps=tuple(
                replace(step, status=_status(run.status, step.status), tries=tuple(tries.get(step.name, ())))
                for step in steps
            ),
        )

    def steps(self, execution: str) -> list[StepRun]:
        """The steps of an execution in the definition's order, branches included; after a ForEach the steps of its
        iterations."""
        sql = f"SELECT {_STEP} FROM steps WHERE execution = ? ORDER BY position, iteration, rowid"
        return self._with_ends([self._step(row) for row in self.rows(sql, execution)])

    def step(self, execution: str, name: str) -> StepRun:
        """One step.

        Raises:
            UserError: the execution has no such step.
        """
        rows = self.rows(f"SELECT {_STEP} FROM steps WHERE execution = ? AND name = ?", execution, name)
        if not rows:
            known = [row[0] for row in self.rows("SELECT name FROM steps WHERE execution = ?", execution)]
            raise UserError(f"Execution {execution} has no step {name!r}. {did_you_mean(name, known)}")
        return self._with_ends([self._step(rows[0])])[0]

    def attempts(self, execution: str, step: str | None = None) -> list[Attempt]:
        """The attempts of an execution, or of one of its steps, in the order in which they started."""
        sql = f"SELECT {_ATTEMPT} FROM attempts WHERE execution = ? AND (? IS NULL OR step = ?) ORDER BY rowid"
        return [_attempt(row) for row in self.rows(sql, execution, step, step)]

    def metrics(
        self, execution: str, step: str | None = None, *, most: int = 4000, since: int | None = None
    ) -> list[MetricRow]:
        """Training metrics of the last attempt of each step (of those from `since` on, where one went on with another's
        training), in the order in which they were logged.

        Of a metric with more than `most` values, the least and the greatest of each of most / 2 stretches of equal
        length, and the last: a curve of them looks as one of all would.
        """
        logged = """
            FROM metrics m JOIN steps s ON s.execution = m.execution AND s.name = m.step
            AND m.attempt BETWEEN coalesce(?, s.attempts) AND s.attempts
            WHERE m.execution = ? AND (? IS NULL OR m.step = ?)
        """
        counts = self.rows(f"SELECT m.step, m.name, count(*) {logged} GROUP BY 1, 2", since, execution, step, step)
        thinned = {(step, name): _Thinned(count, most) for step, name, count in counts}
        sql = f"SELECT m.rowid, m.step, m.name, m.seconds, m.position, m.attempt, m.value {logged} ORDER BY m.rowid"
        with self._guard, unreadable_errors(self.home.ledger):
            for row in self._connection.execute(sql, (since, execution, step, step)):
                if (metric := thinned.get((row[1], row[2]))) is not None:  # else it is new since they were counted
                    metric.add(row)
        kept = sorted(row for each in thinned.values() for row in each.kept())
        return [MetricRow(*row[1:]) for row in kept]

    def artifacts(self, execution: str, step: str | None = None) -> list[Artifact]:
        """The artifacts that the steps read and wrote."""
        sql = f"SELECT {_ARTIFACT} FROM artifacts WHERE execution = ? AND (? IS NULL OR step = ?) ORDER BY rowid"
        return [Artifact(**_named(_ARTIFACT, row)) for row in self.rows(sql, execution, step, step)]

    def objects(self, execution: str, step: str | None = None) -> list[ObjectRow]:
        """Every object written, with its checksum, by URI."""
        sql = "SELECT uri, sha256, bytes, execution, step FROM objects WHERE execution = ? AND (? IS NULL OR step = ?)"
        return [ObjectRow(*row) for row in self.rows(sql + " ORDER BY uri", execution, step, step)]

    def events(self, execution: str, step: str | None = None) -> list[EventRow]:
        """The events that EventBridge would have sent about an execution, or about one of its steps, in order."""
        sql = "SELECT number, step, time, event FROM events WHERE execution = ? AND (? IS NULL OR step = ?)"
        rows = self.rows(sql + " ORDER BY number", execution, step, step)
        return [_event(row) for row in rows]

    def last_event(self) -> int:
        """The number of the latest event of all; 0 before the first event."""
        return self.rows("SELECT coalesce(max(number), 0) FROM events")[0][0]

    def execution_events(self, after: int) -> list[EventRow]:
        """The events of executions themselves, not of their steps, since the one with the number `after`, in order."""
        sql = "SELECT number, step, time, event FROM events WHERE number > ? AND step IS NULL ORDER BY number"
        return [_event(row) for row in self.rows(sql, after)]

    def earlier_success(self, pipeline: str, step: str, key: str | None = None) -> StepRun | None:
        """The latest success of a step of a pipeline that really ran: with this cache key, or with any.

        The order is that in which their attempts were entered: a clock can be set back.
        """
        sql = f"""
            SELECT {_STEP}, cache_fields FROM steps
            WHERE pipeline = ? AND name = ? AND status = 'Succeeded' AND cache_key IS NOT NULL
              AND (? IS NULL OR cache_key = ?)
            ORDER BY (SELECT max(attempts.rowid) FROM attempts WHERE execution = steps.execution AND step = steps.name)
              DESC, ended DESC LIMIT 1
        """
        rows = self.rows(sql, pipeline, step, key, key)
        return replace(self._step(rows[0][:-1]), key_fields=_mapping(rows[0][-1])) if rows else None

    def written(self, execution: str, step: str) -> list[ObjectEntry]:
        """Every object that a step wrote, as it was then."""
        sql = "SELECT uri, sha256, bytes, mtime_ns, ctime_ns FROM objects WHERE execution = ? AND step = ?"
        return [ObjectEntry(*row) for row in self.rows(sql, execution, step)]

    def inputs_read(self, execution: str, step: str) -> list[tuple[str, str, str, str]]:
        """Name, URI, stamp and digest of every input that a step read."""
        sql = "SELECT name, uri, stamp, digest FROM artifacts WHERE execution = ? AND step = ? AND flow = 'input'"
        return [(row[0], row[1], row[2], row[3]) for row in self.rows(sql, execution, step)]

    def checksum(self, item: StoredObject) -> str | None:
        """The sha256 of an object that a step wrote, or that was uploaded, if size and times say that it is still the
        same."""
        sql = "SELECT sha256 FROM objects WHERE uri = ? AND bytes = ? AND mtime_ns = ? AND ctime_ns = ? LIMIT 1"
        rows = self.rows(sql, item.uri, item.bytes, item.mtime_ns, item.ctime_ns)
        return rows[0][0] if rows else None

    def writer_of(self, uri: str) -> tuple[str | None, str | None]:
        """The execution and step that last wrote `uri`, a folder in which it lies, or files below it."""
        bucket_end = uri.find("/", len("s3://"))
        stem = uri.rstrip("/")
        while len(stem) > bucket_end > 0:
            rows = self.rows(
                "SELECT execution, step FROM artifacts WHERE uri IN (?, ?) AND flow = 'output' "
                "ORDER BY rowid DESC LIMIT 1",
                stem,
                stem + "/",
            )
            if rows:
                return rows[0][0], rows[0][1]
            stem = stem.rpartition("/")[0]
        return None, None

    def latest_unfinished(self, request_hash: str) -> str | None:
        """The newest execution of the same request, if the ledger does not know how it ended."""
        sql = "SELECT id, status FROM executions WHERE request_hash = ? ORDER BY rowid DESC LIMIT 1"
        rows = self.rows(sql, request_hash)
        return rows[0][0] if rows and rows[0][1] == "Executing" else None

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._guard, unreadable_errors(self.home.ledger):
            return self._connection.execute(sql, values).fetchall()

    def _execution(self, row: tuple[Any, ...]) -> Run:
        known = _named(f"{_EXECUTION}, unhealthy", row)
        if known["status"] == "Executing":
            if self.home.is_running(known["id"]):
                known["stopping"] = self.rows(_LAST_TOLD, known["id"]) == [("Stopping",)]
            else:
                known["status"] = "Interrupted"
                if known["ended"] is None:
                    known["ended"] = max(known["started"], self.last_sign(known["id"]))
        known["idle"] = known["idle"] or 0.0  # an earlier version did not note it
        known["parameters"], known["unhealthy"] = json.loads(known["parameters"]), bool(known["unhealthy"])
        return Run(**known)

    def _with_ends(self, steps: list[StepRun]) -> list[StepRun]:
        """Those of one execution; what was at work when its runner was killed ended then, as far as is known: with its
        last sign of life, and a ForEach with those of its iterations."""
        at_work = any(step.status == "Executing" and step.ended is None for step in steps)
        if not at_work or self.home.is_running(steps[0].execution):
            return steps
        found = [self._with_end(step) for step in steps]
        ends = {step.parent: 0.0 for step in found if step.parent is not None}
        for step in found:
            if step.parent is not None:
                ends[step.parent] = max(ends[step.parent], step.ended or 0.0)
        return [
            replace(step, ended=max(step.ended or 0.0, ends[step.name]))
            if step.status == "Executing" and step.name in ends
            else step
            for step in found
        ]

    def _with_end(self, step: StepRun) -> StepRun:
        if step.status != "Executing" or step.ended is not None or step.started is None:
            return step
        return replace(step, ended=max(step.started, self.last_sign(step.execution, step.name)))

    def last_sign(self, execution: str, step: str | None = None) -> float:
        """The last sign of life of an execution, or of one of its steps, in the ledger or a log; 0 without any."""
        at_work = self.rows(_AT_WORK, execution, step, step)
        logs = [log for name, number in at_work for log in self.home.logs(execution, name, number).glob("*.log")]
        return max([self.rows(_LAST, execution, step)[0][0], *(log.stat().st_mtime for log in logs)])

    def _step(self, row: tuple[Any, ...]) -> StepRun:
        known = _named(_STEP, row)
        known["title"] = known["title"] or known["name"]
        known["status"] = known["status"] or "Waiting"
        known["why"] = tuple(json.loads(known["why"]))
        known["arguments"], known["response"] = json.loads(known["arguments"]), json.loads(known["response"])
        return StepRun(**known)


def _named(columns: str, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((column.rpartition(" ")[2] for column in columns.split(", ")), row, strict=True))


def _status(run: str, step: str) -> str:
    """A step's status beside that of its run."""
    if step == "Waiting" and run not in ("Executing", "Interrupted"):
        return "NotExecuted"
    return "Interrupted" if step == "Executing" and run == "Interrupted" else step


def _mapping(text: str) -> Mapping[str, Any]:
    return json.loads(text)


def _event(row: tuple[Any, ...]) -> EventRow:
    return EventRow(number=row[0], step=row[1], time=row[2], event=_mapping(row[3]))


def _attempt(row: tuple[Any, ...]) -> Attempt:
    known = _named(_ATTEMPT, row)
    known["processes"] = tuple(ProcessRecord(**process) for process in json.loads(known["processes"]))
    return Attempt(**known)


_LAST = """
    SELECT MAX(COALESCE((SELECT MAX(time) FROM events WHERE execution = ?1 AND (?2 IS NULL OR step = ?2)), 0),
               COALESCE((SELECT MAX(a.started + m.seconds) FROM attempts a JOIN metrics m ON m.execution = a.execution
                         AND m.step = a.step AND m.attempt = a.number
                         WHERE a.execution = ?1 AND (?2 IS NULL OR a.step = ?2)), 0),
               COALESCE((SELECT MAX(COALESCE(ended, started)) FROM steps
                         WHERE execution = ?1 AND (?2 IS NULL OR name = ?2)), 0))
"""
_AT_WORK = "SELECT step, number FROM attempts WHERE execution = ? AND (? IS NULL OR step = ?) AND ended IS NULL"
