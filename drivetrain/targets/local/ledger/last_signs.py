"""Until when what nobody ended was at work: the runner was killed, and could not enter it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drivetrain.targets.local.home import Home
from drivetrain.targets.local.ledger.rows import StepRow

_LAST = """
    SELECT MAX(COALESCE((SELECT MAX(time) FROM events WHERE execution = ?1 AND (?2 IS NULL OR step = ?2)), 0),
               COALESCE((SELECT MAX(a.started + m.seconds) FROM attempts a JOIN metrics m ON m.execution = a.execution
                         AND m.step = a.step AND m.attempt = a.number
                         WHERE a.execution = ?1 AND (?2 IS NULL OR a.step = ?2)), 0),
               COALESCE((SELECT MAX(COALESCE(ended, started)) FROM steps
                         WHERE execution = ?1 AND (?2 IS NULL OR name = ?2)), 0))
"""
_AT_WORK = "SELECT step, number FROM attempts WHERE execution = ? AND (? IS NULL OR step = ?) AND ended IS NULL"


def last_sign(home: Home, rows: Callable[..., list[tuple[Any, ...]]], execution: str, step: str | None = None) -> float:
    """The last moment of an execution, or of one of its steps, of which the ledger or a log tells; 0 where none does.

    Args:
        rows: what a query with these values gives.
    """
    at_work = rows(_AT_WORK, execution, step, step)
    logs = [log for name, number in at_work for log in home.logs(execution, name, number).glob("*.log")]
    return max([rows(_LAST, execution, step)[0][0], *(log.stat().st_mtime for log in logs)])


def with_ends(home: Home, rows: Callable[..., list[tuple[Any, ...]]], steps: list[StepRow]) -> list[StepRow]:
    """The steps of an execution that nobody runs; those at work end with their last sign of life, and a ForEach with
    those of its iterations."""
    found = [_with_end(home, rows, step) for step in steps]
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


def _with_end(home: Home, rows: Callable[..., list[tuple[Any, ...]]], step: StepRow) -> StepRow:
    if step.status != "Executing" or step.ended is not None or step.started is None:
        return step
    return replace(step, ended=max(step.started, last_sign(home, rows, step.execution, step.name)))
