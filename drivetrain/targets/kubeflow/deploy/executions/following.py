"""An execution on a cluster as the events of a local run, so that one display shows both.

The API is asked every few seconds; what is new since the last answer becomes events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from drivetrain.run_store.events import Event, ExecutionFinished, ExecutionStarted, StepFinished, StepStarted
from drivetrain.targets.kubeflow.deploy.executions.executions import Execution, Explained, describe
from drivetrain.targets.kubeflow.deploy.rest import Api

POLL_SECONDS = 5.0
Ended = Literal["Succeeded", "Failed", "Stopped", "Cached", "NotExecuted"]
_ENDED: dict[str, Ended] = {name: name for name in ("Succeeded", "Failed", "Stopped", "Cached", "NotExecuted")}


def follow(
    api: Api,
    name: str,
    id: str,
    tell: Callable[[Event], object],
    *,
    explained: Explained | None = None,
    pause: Callable[[float], object] = lambda seconds: time.sleep(seconds),
) -> Execution:
    """Tell of an execution until it ends; gives how it ended."""
    looked = lambda: describe(api, name, id, explained)  # noqa: E731
    now = looked()
    with api.followed():
        return _follow(now, looked, tell, pause)


def _follow(
    now: Execution,
    looked: Callable[[], Execution],
    tell: Callable[[Event], object],
    pause: Callable[[float], object],
) -> Execution:
    name, id = now.pipeline, now.id
    steps = [(each.name, each.type, each.title) for each in now.planned]
    tell(ExecutionStarted(id, name, tuple(steps)))
    begun: set[str] = set()
    ended: set[str] = set()
    while True:
        for step in now.steps:
            status = _ENDED.get(step.status)
            if step.name not in begun and status not in ("Cached", "NotExecuted"):
                begun.add(step.name)
                tell(StepStarted(step.name, 1))
            if status is not None and step.name not in ended:
                ended.add(step.name)
                tell(StepFinished(step.name, status, step.seconds or 0.0, step.reason))
        if not now.is_going:
            break
        pause(POLL_SECONDS)
        now = looked()
    cut: Ended = "Stopped" if now.status == "Stopped" else "Failed"
    for step_name, _, _ in steps:
        if step_name not in ended:
            tell(StepFinished(step_name, cut if step_name in begun else "NotExecuted", 0.0))
    seconds = max((now.finished or 0.0) - (now.started or 0.0), 0.0)
    status = now.status if now.status in ("Succeeded", "Stopped") else "Failed"
    tell(ExecutionFinished(id, status, seconds, now.reason))
    return now
