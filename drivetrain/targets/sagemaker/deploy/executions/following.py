"""An execution on SageMaker as the events of a local run, so that one display shows both.

The service is asked every few seconds; what is new since the last answer becomes events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from drivetrain.run_store.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    MetricLogged,
    StepFinished,
    StepInterrupted,
    StepNoted,
    StepRestarted,
    StepRetrying,
    StepStarted,
)
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import INTERRUPTED, JobFacts, job_of
from drivetrain.targets.sagemaker.deploy.executions.executions import Execution, StepRun, definition_of, describe

POLL_SECONDS = 5.0
ENDED = frozenset(["Succeeded", "Failed", "Stopped"])
Wait = Callable[[float], object]


@dataclass
class _Seen:
    """What was told of a step."""

    attempt: int = 0
    ended: bool = False
    phase: str | None = None
    interruptions: int = 0
    metrics: dict[str, float] = field(default_factory=dict[str, float])


def follow(
    account: Account,
    arn: str,
    tell: Callable[[Event], object],
    *,
    wait: Wait = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Execution:
    """Tell of an execution until it ends; gives how it ended.

    Args:
        wait: called with the seconds until the service is asked again.
        clock: seconds since the epoch.

    Raises:
        UserError: AWS refuses.
    """
    now = describe(account, arn)
    with account.followed(wait):
        return _follow(account, now, tell, wait, clock)


def _follow(
    account: Account, now: Execution, tell: Callable[[Event], object], wait: Wait, clock: Callable[[], float]
) -> Execution:
    arn = now.arn
    steps = definition_of(account, arn).walk()
    tell(
        ExecutionStarted(
            now.id, now.pipeline, tuple((step.name, step.type, step.display_name or step.name) for step in steps)
        )
    )
    seen: dict[str, _Seen] = {}
    while True:
        for step in now.steps:
            _tell_of(account, step, seen.setdefault(step.name, _Seen()), tell, clock)
        if not now.is_going:
            break
        wait(POLL_SECONDS)
        now = describe(account, arn)
    for step in steps:
        if step.name not in seen:
            tell(StepFinished(step.name, "NotExecuted", 0.0))
    seconds = (now.modified or clock()) - (now.started or clock())
    status = now.status if now.status in ("Succeeded", "CompletedWithFailures", "Stopped") else "Failed"
    tell(ExecutionFinished(now.id, status, max(seconds, 0.0), now.reason))
    return now


def _tell_of(
    account: Account, step: StepRun, seen: _Seen, tell: Callable[[Event], object], clock: Callable[[], float]
) -> None:
    if seen.ended:
        return
    if step.shown_status == "Cached":
        seen.ended = True
        tell(StepFinished(step.name, "Cached", 0.0, cache_of=step.cached_from))
        return
    if step.attempts > seen.attempt:
        if seen.attempt:
            tell(StepRetrying(step.name, seen.attempt, step.reason or "", 0.0))
        seen.attempt = step.attempts
        tell(StepStarted(step.name, step.attempts))
    job = job_of(account, step)
    if job is not None:
        _tell_of_job(step, job, seen, tell, clock)
    if step.status in ENDED:
        seen.ended = True
        seconds = step.seconds if step.seconds is not None else 0.0
        status = "Succeeded" if step.status == "Succeeded" else "Failed" if step.status == "Failed" else "Stopped"
        tell(StepFinished(step.name, status, seconds, step.reason, value=step.value))


def _tell_of_job(
    step: StepRun, job: JobFacts, seen: _Seen, tell: Callable[[Event], object], clock: Callable[[], float]
) -> None:
    """Interruptions, what it does, and its metrics."""
    if job.interruptions > seen.interruptions or (job.phase == INTERRUPTED and seen.phase != INTERRUPTED):
        seen.interruptions = max(job.interruptions, seen.interruptions + 1)
        why = "the spot machines were taken away"
        tell(StepInterrupted(step.name, step.attempts, None, seen.interruptions + 1, why))
    if seen.phase == INTERRUPTED and job.phase == "Training":
        tell(StepRestarted(step.name, step.attempts, seen.interruptions + 1))
    elif job.phase is not None and job.phase != seen.phase and step.status not in ENDED and job.phase != INTERRUPTED:
        tell(StepNoted(step.name, step.attempts, job.phase.lower()))
    seen.phase = job.phase
    elapsed = clock() - step.started if step.started is not None else 0.0
    for name, value in job.metrics.items():
        if seen.metrics.get(name) != value:
            seen.metrics[name] = value
            tell(MetricLogged(step.name, name, value, max(elapsed, 0.0)))
