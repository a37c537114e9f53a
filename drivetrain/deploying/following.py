"""A run where it is deployed, followed: as the events of a run on this machine, so that one display shows both, and by
the logs of its steps.

The place is asked every few seconds; what is new since the last answer becomes events.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from drivetrain.base.errors import UserError, did_you_mean, nearest
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


def read_log(
    followed: FollowedRun,
    name: str | None,
    write: Callable[[LogLine], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    wait: Wait = sleep,
) -> None:
    """Give a step's lines to `write`; with `follow`, until the step ends.

    Args:
        name: of the step; else of the failed, running or last one.
        num_lines: only the last ones of what is there already.

    Raises:
        UserError: there is no such log, or it cannot be read.
    """
    run = followed.look()
    if not follow:
        copy_log(followed, run, step_with_log(run, name), write, num_lines=num_lines)
        return
    with followed.followed(wait):
        run, step = awaited_step(followed, run, name, wait)
        copy_log(followed, run, step, write, follow=True, num_lines=num_lines, wait=wait)


def step_with_log(run: RemoteRun, name: str | None) -> RemoteStep:
    """The named step, else the most interesting one: failed, running, the last one.

    Raises:
        UserError: there is no such step, it has not begun, or it ran no program.
    """
    if name is not None:
        step = _named(run, name)
        if step is None:
            begun = [step.name for step in run.steps]
            hint = f"Did you mean {close!r}? " if (close := nearest(name, begun)) else ""
            said = f"{hint}Begun: {', '.join(begun) or 'none'}. {run.note or ''}".rstrip()
            raise UserError(f"No step {name!r} has begun in execution {run.id}. {said}")
        if step.no_log is not None:
            raise UserError(f"Step {name!r} of {run.id} has no log: {step.no_log}.")
        return step
    logged = [step for step in run.steps if step.no_log is None]
    if not logged:
        yet = " yet" if run.is_going else ""
        raise UserError(f"No step of execution {run.id} has a log{yet}. {run.note or ''}".rstrip())
    return next((step for status in ("Failed", "Executing") for step in logged if step.status == status), logged[-1])


def awaited_step(
    followed: FollowedRun, run: RemoteRun, name: str | None, wait: Wait = sleep
) -> tuple[RemoteRun, RemoteStep]:
    """As `step_with_log`, for who follows: a step that has not begun is waited for while the run goes on. Gives the run
    as it is then, too.

    Raises:
        UserError: there will be no such log.
    """
    told, planned = False, None
    while True:
        try:
            return run, step_with_log(run, name)
        except UserError:
            step = _named(run, name)
            if name is not None and step is None:
                planned = planned or {known for each in followed.planned(run) for known in (each.name, each.title)}
                if name not in planned:
                    raise UserError(f"Execution {run.id} has no step {name!r}. {did_you_mean(name, planned)}") from None
            if not run.is_going or (step is not None and not step.may_log):
                raise
        if not told:
            told = True
            what = "No step has" if name is None else f"Step {name!r} has not"
            print(f"{what} begun yet{f' ({run.note})' if run.note else ''}. Following goes on.", file=sys.stderr)
            sys.stderr.flush()
        wait(POLL_SECONDS)
        run = followed.look()


def _named(run: RemoteRun, name: str | None) -> RemoteStep | None:
    return next((step for step in run.steps if name in (step.name, step.title)), None)


def copy_log(
    followed: FollowedRun,
    run: RemoteRun,
    step: RemoteStep,
    write: Callable[[LogLine], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    wait: Wait = sleep,
) -> None:
    """As `read_log`, of a step that has a log."""
    log = followed.log(run, step, num_lines)
    told: set[str] = set()
    while True:
        # Looked at before the lines, so that what was written before the end is not missed.
        over = not follow or step.has_ended
        for line in log.new_lines(step):
            write(line)
        if over:
            break
        for why in log.waits():
            if why not in told:
                told.add(why)
                print(why, file=sys.stderr, flush=True)
        wait(POLL_SECONDS)
        found = _named(followed.look(), step.name)
        step = step if found is None else found
    if (problem := log.problem()) is not None:
        raise UserError(problem)
