"""A run of another process as events, so that one display shows it and a run of this process.

The ledger is read every half second; what is new since the last look becomes events. One that has ended is told whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from drivetrain.targets.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    ExecutionStatus,
    MetricLogged,
    StepExpanded,
    StepFinished,
    StepNoted,
    StepRetrying,
    StepStarted,
    StepStatus,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drivetrain.targets.local.ledger import StepRow
    from drivetrain.targets.local.ledger.reader import Ledger

POLL_S = 0.5
_RAN = ("Succeeded", "Failed", "Stopped")
_ENDED = (*_RAN, "Cached", "NotExecuted")
_LATEST = """
    SELECT max(rowid), step, name, value, seconds FROM metrics WHERE execution = ? AND rowid > ? GROUP BY step, name
    ORDER BY 1
"""


def follow(
    ledger: Ledger, execution: str, tell: Callable[[Event], object], *, wait: Callable[[float], object] = time.sleep
) -> str:
    """Tell of a run until it ends, or until its process is gone; gives its id.

    Args:
        execution: its id, its name, the beginning of its id, or `latest`.
        wait: called with the seconds until the next look.

    Raises:
        UserError: there is no such run.
    """
    run = ledger.execution(execution)
    follower = _Follower(ledger, run.id, tell)
    follower.begin(run.pipeline)
    while True:
        # Looked at before the steps, so that nothing of its end is missed.
        run = ledger.execution(run.id)
        follower.look()
        if run.status != "Executing":
            break
        wait(POLL_S)
    if run.status != "Interrupted":  # which its process did not live to tell
        tell(ExecutionFinished(run.id, cast(ExecutionStatus, run.status), run.seconds or 0.0, run.reason))
    return run.id


class _Follower:
    """What was told of a run so far."""

    def __init__(self, ledger: Ledger, execution: str, tell: Callable[[Event], object]) -> None:
        self._ledger, self._execution, self._tell = ledger, execution, tell
        self._steps: set[str] = set()
        self._ended: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._notes: dict[str, str] = {}
        self._last_metric = 0

    def begin(self, pipeline: str) -> None:
        """Tell of the start, with the steps that are known."""
        steps = self._ledger.steps(self._execution)
        self._steps = {step.name for step in steps}
        self._tell(ExecutionStarted(self._execution, pipeline, _told(steps)))

    def look(self) -> None:
        """Tell what is new."""
        steps = self._ledger.steps(self._execution)
        for parent in dict.fromkeys(step.parent for step in steps if step.name not in self._steps):
            if parent is not None:
                iterations = [step for step in steps if step.parent == parent]
                self._steps |= {step.name for step in iterations}
                self._tell(StepExpanded(parent, _told(iterations)))
        metrics: dict[str, list[MetricLogged]] = {}
        for row, step, name, value, seconds in self._ledger.rows(_LATEST, self._execution, self._last_metric):
            self._last_metric = row
            metrics.setdefault(step, []).append(MetricLogged(step, name, value, seconds))
        for step in steps:
            self._start(step)
            for metric in metrics.get(step.name, ()):
                self._tell(metric)
            self._note(step)
            self._end(step)

    def _start(self, step: StepRow) -> None:
        before = self._attempts.get(step.name, 0)
        # A step that an earlier process tried, and which waits again, has attempts already.
        if step.name in self._ended or step.attempts <= before or step.status not in ("Executing", *_RAN):
            return
        self._attempts[step.name] = step.attempts
        if before:
            tried = {each.number: each.reason for each in self._ledger.attempts(self._execution, step.name)}
            self._tell(StepRetrying(step.name, before, tried.get(before) or "", 0.0))
        self._tell(StepStarted(step.name, step.attempts, () if before else step.why))

    def _note(self, step: StepRow) -> None:
        if step.status == "Executing" and step.value and step.value != self._notes.get(step.name):
            self._notes[step.name] = step.value
            self._tell(StepNoted(step.name, step.attempts, step.value))

    def _end(self, step: StepRow) -> None:
        if step.name in self._ended or step.status not in _ENDED:
            return
        self._ended.add(step.name)
        seconds = 0.0 if step.started is None or step.ended is None else step.ended - step.started
        status = cast(StepStatus, step.status)
        self._tell(StepFinished(step.name, status, seconds, step.reason, step.cache_of, value=step.value))


def _told(steps: Sequence[StepRow]) -> tuple[tuple[str, str, str], ...]:
    return tuple((step.name, step.type, step.display_name) for step in steps)
