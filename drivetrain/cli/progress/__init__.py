"""The progress of a run, on a terminal or as plain lines. Here is what a watcher knows of a run that goes on: built
from the events, shown by live.py or plain.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from drivetrain.base.formatting import number
from drivetrain.report.content.reasons import in_a_line, known_paths
from drivetrain.targets.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    MetricLogged,
    StepExpanded,
    StepFinished,
    StepInterrupted,
    StepNoted,
    StepRestarted,
    StepRetrying,
    StepStarted,
)

Clock = Callable[[], float]
DONE = frozenset({"Succeeded", "Cached", "Failed", "Stopped", "NotExecuted"})


@dataclass
class StepView:
    """One step as far as it got. `since` is the clock's time of its start, `seconds` its wall time when it is done."""

    name: str
    type: str
    title: str
    status: str = "Waiting"
    since: float | None = None
    seconds: float | None = None
    attempt: int = 0
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    why: tuple[str, ...] = ()
    value: str | None = None
    cache_of: str | None = None
    reason: str | None = None
    retry: str | None = None

    @property
    def done(self) -> bool:
        return self.status in DONE

    def detail(self, num_metrics: int = 3) -> str:
        """What is worth saying beside name, status and time."""
        parts: list[str] = []
        if self.value:
            parts.append(self.value)
        if self.cache_of:
            parts.append(f"from {self.cache_of}")
        if self.retry and not self.done:
            parts.append(self.retry)
        elif self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        if self.status in ("Failed", "Stopped") and self.reason:
            parts.append(in_a_line(self.reason))
        else:
            if self.metrics:
                parts.append(self.numbers(num_metrics))
            parts += self.why
        return ", ".join(parts)

    def numbers(self, limit: int | None = None) -> str:
        """The latest training metrics; where not all may be told, a loss and an accuracy before their likes."""
        names = sorted(self.metrics, key=_rank)
        if limit is not None and limit < len(names):
            first = {_rank(name): name for name in reversed(names)}
            names = sorted(names, key=lambda name: first[_rank(name)] != name)[:limit]
        return ", ".join(f"{name} {number(self.metrics[name])}" for name in names)


def _rank(name: str) -> int:
    return next((place for place, word in enumerate(("loss", "accuracy")) if word in name), 2)


def interruption(event: StepInterrupted) -> str:
    """`interrupted at step 120, restarting (2)`."""
    where = "" if event.at_step is None else f" at step {event.at_step}"
    return f"interrupted{where}, restarting ({event.start})"


class RunView:
    """The run: what its events have said so far."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.execution = ""
        self.pipeline = ""
        self.resumed = False
        self.status = "Waiting"
        self.reason: str | None = None
        self.began = clock()
        self.steps: dict[str, StepView] = {}

    @property
    def elapsed(self) -> float:
        return self.clock() - self.began

    def apply(self, event: Event) -> StepView | None:
        """Take an event in; gives the step that it is about."""
        match event:
            case ExecutionStarted():
                self.execution, self.pipeline, self.resumed = event.execution, event.pipeline, event.resumed
                self.status = "Executing"
                self.steps = {name: StepView(name, kind, title or name) for name, kind, title in event.steps}
                for name in event.finished:
                    self.steps[name].status = "Succeeded"
                    self.steps[name].value = "done before"
                return None
            case StepExpanded():
                self._expand(event)
                return self.steps.get(event.step)
            case ExecutionFinished():
                self.status, self.reason = event.status, event.reason
                return None
            case _:
                step = self.steps.setdefault(event.step, StepView(event.step, "", event.step))
        match event:
            case StepStarted():
                step.status, step.attempt, step.retry = "Executing", event.attempt, None
                if step.since is None:
                    step.since = self.clock()
                step.why = event.why or step.why
                step.metrics.clear()
            case MetricLogged():
                step.metrics[event.name] = event.value
            case StepRetrying():
                step.status = "Retrying"
                step.retry = f"attempt {event.attempt} failed, the next one in {event.wait_s:.0f} s"
            case StepInterrupted():
                step.status = "Interrupted"
                step.retry = interruption(event)
            case StepRestarted():
                step.status, step.retry = "Executing", f"start {event.start}"
            case StepNoted():
                step.value = event.note
            case StepFinished():
                step.status, step.seconds, step.reason = event.status, event.seconds, event.reason
                step.cache_of, step.value = event.cache_of, event.value
                step.why = (*step.why, *map(known_paths, event.why))
            case _:
                pass  # CacheExplained changes nothing that is shown of the step
        return step

    def _expand(self, event: StepExpanded) -> None:
        """The steps of a ForEach's iterations come after it; those that are known (of a run that goes on) stay."""
        come = {name: self.steps.get(name) or StepView(name, kind, title) for name, kind, title in event.steps}
        ordered: dict[str, StepView] = {}
        for name, step in self.steps.items():
            if name not in come:
                ordered[name] = step
            if name == event.step:
                ordered |= come
        self.steps = ordered

    def seconds(self, step: StepView) -> float | None:
        """A step's wall time: until it ended, else until now; None where time says nothing."""
        if step.done:
            return step.seconds if step.status not in ("Cached", "NotExecuted") else None
        return None if step.since is None else self.clock() - step.since
