"""The attempts at a step, each with a number, and what an execution that goes on forgets of them.

Inside a transaction of the writer.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

_LAST_EVENT = "COALESCE((SELECT MAX(time) FROM events WHERE execution = id), 0)"
_LAST_METRIC = (
    "COALESCE((SELECT MAX(a.started + m.seconds) FROM attempts a JOIN metrics m ON m.execution = a.execution AND "
    "m.step = a.step AND m.attempt = a.number WHERE a.execution = id), 0)"
)


def end_of_life(db: sqlite3.Connection, execution: str, alive: float) -> None:
    """Record the end of an execution whose runner was killed: the last moment in the ledger, or `alive`."""
    db.execute(
        f"UPDATE executions SET ended = MAX(started, ?, {_LAST_EVENT}, {_LAST_METRIC}) WHERE id = ? AND ended IS NULL",
        (alive, execution),
    )


def reopen(db: sqlite3.Connection, execution: str, kept: Collection[str], now: float) -> None:
    """Reset what has not been done; the failures in `kept` stay."""
    (ended,) = db.execute("SELECT ended FROM executions WHERE id = ?", (execution,)).fetchone()
    ended = now if ended is None else min(ended, now)  # the clock may have been set back
    db.execute(
        "UPDATE executions SET status = 'Executing', ended = NULL, reason = NULL, idle = COALESCE(idle, 0) + ? WHERE "
        "id = ?",
        (now - ended, execution),
    )
    db.execute(
        "UPDATE attempts SET status = 'Interrupted', ended = MAX(started, ?) WHERE execution = ? AND status = "
        "'Executing'",
        (ended, execution),
    )
    db.execute(
        "UPDATE steps SET status = NULL, started = NULL, ended = NULL, reason = NULL, value = NULL WHERE execution = ? "
        "AND status IN ('Executing', 'Failed', 'Stopped', 'NotExecuted') "
        f"AND COALESCE(parent, name) NOT IN ({', '.join('?' * len(kept))})",
        (execution, *kept),
    )


def next_attempt(db: sqlite3.Connection, execution: str, step: str) -> int:
    """Enter one more attempt at a step; gives its number."""
    db.execute("UPDATE steps SET attempts = attempts + 1 WHERE execution = ? AND name = ?", (execution, step))
    sql = "SELECT attempts FROM steps WHERE execution = ? AND name = ?"
    number: int = db.execute(sql, (execution, step)).fetchone()[0]
    db.execute(
        "INSERT INTO attempts (execution, step, number, status, started) VALUES (?, ?, ?, 'Executing', ?)",
        (execution, step, number, time.time()),
    )
    return number


def end_attempt(
    db: sqlite3.Connection,
    execution: str,
    step: str,
    number: int,
    status: str,
    reason: str | None,
    error_type: str | None,
) -> None:
    """Enter how an attempt ended."""
    db.execute(
        "UPDATE attempts SET status = ?, ended = ?, reason = ?, error_type = ?, moves = '[]' "
        "WHERE execution = ? AND step = ? AND number = ?",
        (status, time.time(), reason, error_type, execution, step, number),
    )
