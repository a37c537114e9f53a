"""`drivetrain runs show --follow`: a run of another process as events, so that one display shows it and a run of this
process; and `--events`: what EventBridge would have told of a run.

To follow it, the ledger is read every half second; what is new since the last look becomes events. A run that has ended
is told whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drivetrain.cli.outcome import Terminal, exit_code
from drivetrain.run_store.changes import changes, start_of, unstarted
from drivetrain.run_store.events import Event, ExecutionFinished, ExecutionStarted, StepFinished
from drivetrain.run_store.model import Metric, Run
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.reasons import in_a_line
from drivetrain.telling.content.from_ledger import REPORT_FILE, run_facts
from drivetrain.telling.terminal import say, say_json, table

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home

POLL_S = 0.5
_LATEST = """
    SELECT max(rowid), step, name, value, seconds, attempt FROM metrics WHERE execution = ? AND rowid > ?
    GROUP BY step, name ORDER BY 1
"""
Tell = Callable[[Event, float], object]
"""Called with an event and the moment at which it happened, in seconds since the epoch."""


class _EventTime(threading.local):
    """A clock that gives the time of an event to the thread that tells of it, and the present to one that draws."""

    at: float | None = None

    def __call__(self) -> float:
        return time.time() if self.at is None else self.at


def follow(home: Home, execution: str, *, as_json: bool, home_option: str) -> int:
    """Show a run of another process until it ends, then what came of it; gives the exit code.

    Raises:
        UserError: there is no such run, or it was removed.
    """
    clock = _EventTime()
    terminal = Terminal(home, as_json=as_json, home_option=home_option, clock=clock)
    with Ledger(home) as ledger:
        with terminal.progress as progress:

            def tell(event: Event, at: float) -> None:
                clock.at = at
                if isinstance(event, ExecutionStarted):
                    progress.view.began = at
                progress(event)
                clock.at = None

            id = follow_events(ledger, execution, tell)
        home.refuse_removed(home.ledger)
        facts = run_facts(ledger, id)
    page = home.run(id) / REPORT_FILE
    terminal.ended(facts, page if page.exists() else None)
    return exit_code(facts)


def follow_events(ledger: Ledger, execution: str, tell: Tell, *, wait: Callable[[float], object] = time.sleep) -> str:
    """Tell of a run until it ends, or until its process is gone; gives its id.

    Args:
        execution: its id, its name, the beginning of its id, or `latest`.
        wait: called with the seconds until the next look.

    Raises:
        UserError: there is no such run.
    """
    run = ledger.run(execution)
    before = unstarted(run, run.steps)
    tell(start_of(before), run.started)
    metrics = _Metrics(ledger, run.id)
    while True:
        moment = time.time()
        run = metrics.added(ledger.run(run.id))
        happened = [
            (moment if at is None else at, event)
            for event, at in changes(before, run, time=moment)
            # The reader counts a step that never began as not executed; its process told no end of it.
            if not (isinstance(event, StepFinished) and at is None)
        ]
        for at, event in sorted(happened, key=lambda one: (isinstance(one[1], ExecutionFinished), one[0])):
            tell(event, at)
        if not run.is_going:
            return run.id
        before = run
        wait(POLL_S)


class _Metrics:
    """The latest metrics of a run: each look reads what was entered since the one before."""

    def __init__(self, ledger: Ledger, execution: str) -> None:
        self._ledger, self._execution = ledger, execution
        self._last = 0
        self._latest: dict[str, dict[str, Metric]] = {}

    def added(self, run: Run) -> Run:
        """The run with its metrics, those that were entered last at the end."""
        for row, step, name, value, seconds, attempt in self._ledger.rows(_LATEST, self._execution, self._last):
            self._last = row
            before = {key: metric for key, metric in self._latest.get(step, {}).items() if key != name}
            self._latest[step] = {**before, name: Metric(value=value, seconds=seconds, attempt=attempt)}
        return replace(run, steps=tuple(replace(step, logged=self._latest.get(step.name, {})) for step in run.steps))


def show_events(home: Home, execution: str, *, as_json: bool) -> None:
    """Print the events of an execution in order: a line each, or the whole of them as a list in JSON.

    Raises:
        UserError: there is no such execution.
    """
    with Ledger(home) as ledger:
        id = ledger.execution(execution).id
        rows = ledger.events(id)
    if as_json:
        say_json([dict(row.event) for row in rows])
        return
    if not rows:
        say(f"Execution {id} was run before events were kept.")
        return
    cells: list[list[str]] = []
    for row in rows:
        detail: dict[str, Any] = row.event["detail"]
        kind = "Step" if row.step is not None else "PipelineExecution"
        before, now = detail.get(f"previous{kind}Status"), str(detail[f"current{kind}Status"])
        hit: dict[str, str] = detail.get("cacheHitResult", {})
        source = hit.get("sourcePipelineExecutionArn", "")
        more = f"cached, from {source.rpartition('/')[2]}" if source else in_a_line(detail.get("failureReason", ""))
        cells.append(
            [row.event["time"], row.step or "(execution)", detail.get("stepType", ""), f"{before or ''} -> {now}", more]
        )
    say(table(("time", "step", "type", "status", ""), cells))
