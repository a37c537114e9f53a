"""The progress of a run, on a terminal or as plain lines. Here is what a watcher knows of a run that goes on,
built from the events; and what is shown of it where nobody moves a cursor: one line a change, for logs and pipes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from drivetrain.base.formatting import UNHEALTHY, count, duration, number, printable, status_word
from drivetrain.run_store.events import (
    CacheExplained,
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
    shown_run_status,
    shown_status,
)
from drivetrain.run_store.reasons import in_a_line, joined, known_paths

Clock = Callable[[], float]
# Training metrics come many a second; a log wants to be read.
METRICS_EVERY_S = 5.0
MANY_STEPS = 20
"""A run with more has a line a step: when it ends, not when it starts."""
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
        """The note beside name, status and time."""
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
        return joined(parts)

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
    def shown_status(self) -> str:
        """`status`; Unhealthy instead of Succeeded where a step is."""
        unhealthy = any(shown_status(step.status, step.value) == "Unhealthy" for step in self.steps.values())
        return shown_run_status(self.status, unhealthy=unhealthy)

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


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Progress:
    """A display of a run by its events; this one prints nothing."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.view = RunView(clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        self.view.apply(event)


class PlainProgress(Progress):
    """Prints a line when a step starts, ends or is retried, and its metrics now and then."""

    def __init__(self, write: Callable[[str], None] = _print_line, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._write = write
        self._metrics_said: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        step = self.view.apply(event)
        for line in self._lines(event, step):
            self._write(f"{duration(self.view.elapsed):>9}  {printable(line)}")

    def _lines(self, event: Event, step: StepView | None) -> list[str]:
        match event:
            case ExecutionStarted():
                done = f", {len(event.finished)} done before" if event.resumed else ""
                verb = "goes on" if event.resumed else "starts"
                return [
                    f"{event.pipeline} {verb}: execution {event.execution}, {count(len(event.steps), 'step')}{done}"
                ]
            case StepStarted():
                if event.attempt > 1:
                    return [f"{event.step}: attempt {event.attempt} started" + "".join(f", {why}" for why in event.why)]
                if len(self.view.steps) > MANY_STEPS:
                    return []
                return [f"{event.step}: {', '.join(event.why)}, so it runs" if event.why else f"{event.step}: started"]
            case StepExpanded():
                done = f", {len(event.finished)} done before" if event.finished else ""
                return [f"{event.step}: {count(len(event.steps), 'step')} in its iterations{done}"]
            case MetricLogged() if step is not None:
                return self._metric_line(step)
            case StepRetrying():
                return [
                    f"{event.step}: attempt {event.attempt} failed ({in_a_line(event.reason)}); the next one starts in "
                    f"{event.wait_s:.0f} s"
                ]
            case StepInterrupted():
                return [f"{event.step}: {interruption(event)}: {event.reason}"]
            case StepRestarted():
                return [f"{event.step}: at work again, start {event.start}"]
            case StepNoted():
                return [f"{event.step}: {event.note}"]
            case CacheExplained():
                return explanation(event)
            case StepFinished() if step is not None:
                return [_ending(event, step, why=len(self.view.steps) > MANY_STEPS)]
            case ExecutionFinished():
                return [f"{self.view.pipeline} {status_word(self.view.shown_status)} in {duration(event.seconds)}"]
            case _:
                return []

    def _metric_line(self, step: StepView) -> list[str]:
        """The latest metrics, unless some were said a moment ago; the last ones are said when the step ends."""
        now = self.view.clock()
        said = self._metrics_said.get(step.name)
        if said is None:
            # The first metric of a group opens the interval; by the time it ends, the others are there too.
            self._metrics_said[step.name] = now
            return []
        if now - said < METRICS_EVERY_S:
            return []
        self._metrics_said[step.name] = now
        return [f"{step.name}: {step.numbers()}"]


def _ending(event: StepFinished, step: StepView, *, why: bool) -> str:
    if event.status == "NotExecuted":
        return f"{event.step}: not run"
    shown, value = shown_status(event.status, event.value), event.value or ""
    if event.status == "Cached":
        source = f", from {event.cache_of}" if event.cache_of else ""
        return f"{event.step}: cached{source}" + (f": {value}" if shown != event.status else "")
    if shown != event.status:
        value = value.replace(UNHEALTHY, "", 1)  # the status says it
    more = [value, step.numbers()] if event.status == "Succeeded" else [in_a_line(event.reason or ""), value]
    said = joined(more)
    # Of a decision nobody wants to know how long it took.
    took = f" in {duration(event.seconds)}" if event.seconds else ""
    reasons = f" ({', '.join(step.why)})" if why and step.why else ""
    return f"{event.step}: {status_word(shown)}{took}{reasons}" + (f": {said}" if said else "")


def explanation(event: CacheExplained) -> list[str]:
    """Why a step hit or missed the cache, field by field."""
    lines = [f"{event.step}: cache {'hit' if event.hit else 'miss'}: {', '.join(event.reasons) or 'no reason given'}"]
    lines += [f"    {name}: {before} -> {after}" for name, before, after in event.fields]
    lines += [f"    warning: {warning}" for warning in event.warnings]
    return lines


class EventLines(Progress):
    """Prints every event as a line of JSON."""

    def __init__(self, write: Callable[[str], None] = _print_line, clock: Clock = time.time) -> None:
        super().__init__()
        self._write = write
        self._clock = clock

    def __call__(self, event: Event) -> None:
        self.view.apply(event)
        self.write({"event": _snake(type(event).__name__), "time": self._clock(), **asdict(event)})

    def write(self, value: dict[str, Any]) -> None:
        """One line."""
        self._write(json.dumps(value, ensure_ascii=False, default=str))


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
