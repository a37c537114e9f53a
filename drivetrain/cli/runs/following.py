"""`drivetrain runs show --follow`: a run of another process as it goes on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from drivetrain.cli.outcome import Terminal, exit_code
from drivetrain.run_store import following
from drivetrain.run_store.events import Event, ExecutionStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.telling.content.from_ledger import REPORT_FILE, run_facts

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home


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

            id = following.follow(ledger, execution, tell)
        home.refuse_removed(home.ledger)
        facts = run_facts(ledger, id)
    page = home.run(id) / REPORT_FILE
    terminal.ended(facts, page if page.exists() else None)
    return exit_code(facts)
