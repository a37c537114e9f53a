"""The attempts at a step, each with a number: a first one or a further one, and how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


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
