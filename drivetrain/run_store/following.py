"""A run of another process as events, so that one display shows it and a run of this process.

The ledger is read every half second; what is new since the last look becomes events. One that has ended is told whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from drivetrain.run_store.events import (
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

    from drivetrain.run_store.reader import Ledger
    from drivetrain.run_store.rows import AttemptRow, StepRow

POLL_S = 0.5
_RAN = ("Succeeded", "Failed", "Stopped")
_ENDED = (*_RAN, "Cached", "NotExecuted")
_LATEST = """
    SELECT max(rowid), step, name, value, seconds, attempt FROM metrics WHERE execution = ? AND rowid > ?
    GROUP BY step, name ORDER BY 1
"""
Tell = Callable[[Event, float], object]
"""Called with an event and the moment at which it happened, in seconds since the epoch."""


def follow(ledger: Ledger, execution: str, tell: Tell, *, wait: Callable[[float], object] = time.sleep) -> str:
    """Tell of a run until it ends, or until its process is gone; gives its id.

    Args:
        execution: its id, its name, the beginning of its id, or `latest`.
        wait: called with the seconds until the next look.

    Raises:
        UserError: there is no such run.
    """
    run = ledger.execution(execution)
    follower = _Follower(ledger, run.id, tell)
    follower.begin(run.pipeline, run.started)
    while True:
        # Looked at before the steps, so that nothing of its end is missed.
        run = ledger.execution(run.id)
        follower.look()
        if run.status != "Executing":
            break
        wait(POLL_S)
    if run.status != "Interrupted":  # which its process did not live to tell
        finished = ExecutionFinished(run.id, cast(ExecutionStatus, run.status), run.seconds or 0.0, run.reason)
        tell(finished, run.ended or time.time())
    return run.id


class _Follower:
    """What was told of a run so far."""

    def __init__(self, ledger: Ledger, execution: str, tell: Tell) -> None:
        self._ledger, self._execution, self._tell = ledger, execution, tell
        self._new: list[tuple[float, Event]] = []
        self._steps: set[str] = set()
        self._ended: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._notes: dict[str, str] = {}
        self._last_metric = 0
        self._tried: dict[tuple[str, int], AttemptRow] = {}
        self._now = 0.0

    def begin(self, pipeline: str, started: float) -> None:
        """Tell of the start, with the steps that are known."""
        steps = self._ledger.steps(self._execution)
        self._steps = {step.name for step in steps}
        self._tell(ExecutionStarted(self._execution, pipeline, _told(steps)), started)

    def look(self) -> None:
        """Tell what is new, in the order in which it happened."""
        self._now = time.time()
        self._find()
        for at, event in sorted(self._new, key=lambda one: one[0]):
            self._tell(event, at)
        self._new.clear()

    def _add(self, event: Event, at: float | None) -> None:
        """Without a time it happened since the last look."""
        self._new.append((self._now if at is None else at, event))

    def _find(self) -> None:
        steps = self._ledger.steps(self._execution)
        known = {step.name: step for step in steps}
        self._tried = {(each.step, each.number): each for each in self._ledger.attempts(self._execution)}
        for parent in dict.fromkeys(step.parent for step in steps if step.name not in self._steps):
            if parent is not None:
                iterations = [step for step in steps if step.parent == parent]
                self._steps |= {step.name for step in iterations}
                self._add(StepExpanded(parent, _told(iterations)), known[parent].started)
        metrics: dict[str, list[tuple[MetricLogged, float]]] = {}
        for row, step, name, value, seconds, number in self._ledger.rows(_LATEST, self._execution, self._last_metric):
            self._last_metric = row
            tried = self._tried.get((step, number))
            times = [tried.started + seconds] if tried else []
            # Whatever clock the program has, before the end of its attempt.
            times += [each.ended for each in (tried, known.get(step)) if each is not None and each.ended is not None]
            logged = min(self._now, *times)
            metrics.setdefault(step, []).append((MetricLogged(step, name, value, seconds), logged))
        for step in steps:
            self._start(step)
            for metric, logged in metrics.get(step.name, ()):
                self._add(metric, logged)
            self._note(step)
            self._end(step)

    def _start(self, step: StepRow) -> None:
        before = self._attempts.get(step.name, 0)
        # A step that an earlier process tried, and which waits again, has attempts already.
        if step.name in self._ended or step.attempts <= before or step.status not in ("Executing", *_RAN):
            return
        self._attempts[step.name] = step.attempts
        if before:
            failed = self._tried.get((step.name, before))
            reason, ended = (failed.reason, failed.ended) if failed else (None, None)
            self._add(StepRetrying(step.name, before, reason or "", 0.0), ended)
        this = self._tried.get((step.name, step.attempts))
        self._add(
            StepStarted(step.name, step.attempts, () if before else step.why), this.started if this else step.started
        )

    def _note(self, step: StepRow) -> None:
        if step.status == "Executing" and step.value and step.value != self._notes.get(step.name):
            self._notes[step.name] = step.value
            self._add(StepNoted(step.name, step.attempts, step.value), None)

    def _end(self, step: StepRow) -> None:
        if step.name in self._ended or step.status not in _ENDED:
            return
        self._ended.add(step.name)
        seconds = 0.0 if step.started is None or step.ended is None else step.ended - step.started
        status = cast(StepStatus, step.status)
        finished = StepFinished(step.name, status, seconds, step.reason, step.cache_of, value=step.value)
        self._add(finished, step.ended)


def _told(steps: Sequence[StepRow]) -> tuple[tuple[str, str, str], ...]:
    return tuple((step.name, step.type, step.display_name) for step in steps)
