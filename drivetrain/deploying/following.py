"""A run where it is deployed as the events of a run on this machine, so that one display shows both.

The place is asked every few seconds; what is new since the last answer becomes events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from drivetrain.deploying.runs import RemoteRun, RemoteStep
from drivetrain.run_store.changes import changes, start_of, unstarted
from drivetrain.run_store.events import Event
from drivetrain.run_store.model import Run, StepRun

POLL_SECONDS = 5.0
Wait = Callable[[float], object]


def sleep(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True)
class LogLine:
    """A line of a log, and the host or pod that wrote it."""

    host: str
    text: str
    time: float = 0.0
    """When, in seconds since the epoch, where the target says it."""


class LogReader(Protocol):
    """Reads the log of one step, bit by bit."""

    def new_lines(self, step: RemoteStep) -> Iterable[LogLine]:
        """The lines since the last call, as they are read.

        Args:
            step: as it is now; it may have been tried again.
        """
        ...

    def waits(self) -> Sequence[str]:
        """Why some lines cannot be shown yet, in words."""
        ...

    def problem(self) -> str | None:
        """Why there are no lines, or not all of them, where no more are waited for."""
        ...


class FollowedRun(Protocol):
    """One run where it is deployed, looked at again and again. All methods raise UserError with one clear message."""

    def look(self, *, closely: bool = False) -> RemoteRun:
        """The run as it is now.

        Args:
            closely: with what is asked of each step apart: its job, or why its program says that it failed.
        """
        ...

    def planned(self, run: RemoteRun) -> Sequence[StepRun]:
        """All steps that the pipeline has."""
        ...

    def followed(self, wait: Wait) -> AbstractContextManager[None]:
        """Within it, a request without an answer is repeated for some minutes."""
        ...

    def log(self, run: RemoteRun, step: RemoteStep, num_lines: int | None) -> LogReader:
        """Return a reader of a step's log. Of what is there already, it gives the last `num_lines` lines only; None
        gives all."""
        ...


def follow(
    followed: FollowedRun,
    tell: Callable[[Event], object],
    *,
    wait: Wait = sleep,
    clock: Callable[[], float] = time.time,
) -> RemoteRun:
    """Tell of a run until it ends; gives how it ended.

    Args:
        wait: called with the seconds until it is looked at again.
        clock: seconds since the epoch.
    """
    followed.look()  # a run that is not there fails at once
    with followed.followed(wait):
        now = followed.look(closely=True)
        before = unstarted(now, followed.planned(now))
        tell(start_of(before))
        while True:
            seen = _with_others(now, before.steps)
            for change in changes(before, seen, time=clock()):
                tell(change.event)
            if not now.is_going:
                return now
            wait(POLL_SECONDS)
            before, now = seen, followed.look(closely=True)


def _with_others(now: RemoteRun, before: Sequence[StepRun]) -> Run:
    """The run, with the steps that it does not mention: they wait, and once it has ended they will never run."""
    said = {step.name for step in now.steps}
    others = [step for step in before if step.name not in said]
    if not now.is_going:
        cut = "Stopped" if now.status == "Stopped" else "Failed"
        ends = {"Waiting": "NotExecuted", **{step.status: step.status for step in others if step.has_ended}}
        others = [replace(step, status=ends.get(step.status, cut)) for step in others]
    return replace(now, steps=(*now.steps, *others))
