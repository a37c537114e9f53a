"""Changes between two looks at a run, as events, so that one display shows a run of this process and any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, cast

from drivetrain.run_store.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    ExecutionStatus,
    MetricLogged,
    StepExpanded,
    StepFinished,
    StepInterrupted,
    StepNoted,
    StepRestarted,
    StepRetrying,
    StepStarted,
    StepStatus,
)
from drivetrain.run_store.model import Job, Run, StepRun

INTERRUPTED, TRAINING = "Interrupted", "Training"
"""Phases of a job that mean the same on every platform."""
_NOT_BEGUN = ("Waiting", "NotExecuted", "Cached")


class Change(NamedTuple):
    """An event and the moment at which it happened, None where only the look itself is known."""

    event: Event
    time: float | None


def unstarted(run: Run, steps: Iterable[StepRun]) -> Run:
    """The run as it stood before the first look: these steps wait."""
    waiting = (StepRun(name=step.name, type=step.type, title=step.title, parent=step.parent) for step in steps)
    return replace(run, status="Executing", ended=None, steps=tuple(waiting))


def start_of(run: Run) -> ExecutionStarted:
    """The first event of all."""
    return ExecutionStarted(run.id, run.pipeline, _listed(run.steps))


def changes(before: Run, now: Run, *, time: float) -> Iterator[Change]:
    """The changes since an earlier look, step by step; the run's end last.

    Attempts and phases that came and went between the two looks are not told.

    Args:
        time: of the second look.
    """
    earlier = {step.name: step for step in before.steps}
    known = {step.name: step for step in now.steps}
    for parent in dict.fromkeys(step.parent for step in now.steps if step.name not in earlier):
        if parent is not None:
            iterations = [step for step in now.steps if step.parent == parent]
            yield Change(StepExpanded(parent, _listed(iterations)), known[parent].started)
    for step in now.steps:
        was = earlier.get(step.name) or StepRun(name=step.name, type=step.type, title=step.title)
        # An ended step may be tried again, and that may have ended, too, by the second look.
        if not was.has_ended or (was.status, was.attempts) != (step.status, step.attempts):
            yield from _changes_of(was, step, time)
    # What nobody lived to record is not told.
    if before.is_going and not now.is_going and now.status != "Interrupted":
        finished = ExecutionFinished(now.id, cast(ExecutionStatus, now.status), now.seconds or 0.0, now.reason)
        yield Change(finished, now.ended)


def _changes_of(was: StepRun, now: StepRun, time: float) -> Iterator[Change]:
    tries = {each.number: each for each in now.tries}
    # A step that an earlier process tried, and which waits again, has attempts already.
    before = 0 if was.status in _NOT_BEGUN else was.attempts
    goes_on_again = was.has_ended and not now.has_ended
    if (now.attempts > before or goes_on_again) and now.status not in _NOT_BEGUN:
        if before and was.status != "Succeeded":
            failed = tries.get(before) or (was if was.has_ended else None)
            reason, ended = (failed.reason, failed.ended) if failed else (now.reason, None)
            yield Change(StepRetrying(now.name, before, reason or "", 0.0), ended)
        this = tries.get(now.attempts)
        why = () if before else now.why
        yield Change(StepStarted(now.name, now.attempts, why), this.started if this else now.started)
    if now.job is not None:
        yield from _changes_of_job(now, was.job or Job(), now.job)
    yield from _metrics(was, now, time)
    if now.status == "Executing" and now.value and now.value != was.value:
        yield Change(StepNoted(now.name, now.attempts, now.value), None)
    if now.has_ended:
        seconds = 0.0 if now.seconds is None or now.status == "Cached" else now.seconds
        status = cast(StepStatus, now.status)
        finished = StepFinished(now.name, status, seconds, now.reason, now.cache_of, value=now.value)
        yield Change(finished, now.ended)


def _changes_of_job(step: StepRun, was: Job, now: Job) -> Iterator[Change]:
    if now.interruptions > was.interruptions:
        reason = "the spot machines were taken away"
        yield Change(StepInterrupted(step.name, step.attempts, None, now.interruptions + 1, reason), None)
    if was.phase == INTERRUPTED and now.phase == TRAINING:
        yield Change(StepRestarted(step.name, step.attempts, now.interruptions + 1), None)
    elif now.phase not in (None, was.phase, INTERRUPTED) and not step.has_ended:
        yield Change(StepNoted(step.name, step.attempts, str(now.phase).lower()), None)


def _metrics(was: StepRun, step: StepRun, time: float) -> Iterator[Change]:
    tries = {each.number: each for each in step.tries}
    for name, metric in step.logged.items():
        if was.logged.get(name) == metric:
            continue
        if metric.seconds is None:
            elapsed = 0.0 if step.started is None else max(time - step.started, 0.0)
            yield Change(MetricLogged(step.name, name, metric.value, elapsed), None)
            continue
        tried = tries.get(metric.attempt)
        times = [tried.started + metric.seconds] if tried else []
        # Whatever clock the program has, before the end of its attempt.
        times += [each.ended for each in (tried, step) if each is not None and each.ended is not None]
        yield Change(MetricLogged(step.name, name, metric.value, metric.seconds), min(time, *times))


def _listed(steps: Iterable[StepRun]) -> tuple[tuple[str, str, str], ...]:
    return tuple((step.name, step.type, step.title) for step in steps)
