"""Progress where nobody moves a cursor: one line a change, for logs and pipes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from drivetrain.base.formatting import count, duration, printable, status_word
from drivetrain.cli.progress import Clock, RunView, StepView, interruption
from drivetrain.report.content.reasons import in_a_line
from drivetrain.targets.events import (
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
)

# Training metrics come many a second; a log wants to be read.
METRICS_EVERY_S = 5.0
MANY_STEPS = 20
"""A run with more has a line a step: when it ends, not when it starts."""


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class PlainProgress:
    """Prints a line when a step starts, ends or is retried, and its metrics now and then."""

    def __init__(self, write: Callable[[str], None] = _print_line, clock: Clock = time.monotonic) -> None:
        self.view = RunView(clock)
        self._write = write
        self._metrics_said: dict[str, float] = {}

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

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
                if event.attempt > 1 and not event.why:
                    return [f"{event.step}: attempt {event.attempt} started"]
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
                return [f"{self.view.pipeline} {status_word(event.status)} in {duration(event.seconds)}"]
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
    if event.status == "Cached":
        return f"{event.step}: cached" + (f", from {event.cache_of}" if event.cache_of else "")
    more = [event.value or "", step.numbers()] if event.status == "Succeeded" else [in_a_line(event.reason or "")]
    said = ", ".join(part for part in more if part)
    # Of a decision nobody wants to know how long it took.
    took = f" in {duration(event.seconds)}" if event.seconds else ""
    reasons = f" ({', '.join(step.why)})" if why and step.why else ""
    return f"{event.step}: {status_word(event.status)}{took}{reasons}" + (f": {said}" if said else "")


def explanation(event: CacheExplained) -> list[str]:
    """Why a step hit or missed the cache, field by field."""
    lines = [f"{event.step}: cache {'hit' if event.hit else 'miss'}: {', '.join(event.reasons) or 'no reason given'}"]
    lines += [f"    {name}: {before} -> {after}" for name, before, after in event.fields]
    lines += [f"    warning: {warning}" for warning in event.warnings]
    return lines


class NoProgress:
    """Prints nothing."""

    def __init__(self) -> None:
        self.view = RunView()

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        self.view.apply(event)


class EventLines:
    """Prints every event as a line of JSON."""

    def __init__(self, write: Callable[[str], None] = _print_line, clock: Clock = time.time) -> None:
        self.view = RunView()
        self._write = write
        self._clock = clock

    def __enter__(self) -> EventLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        self.view.apply(event)
        self.write({"event": _snake(type(event).__name__), "time": self._clock(), **asdict(event)})

    def write(self, value: dict[str, Any]) -> None:
        """One line."""
        self._write(json.dumps(value, ensure_ascii=False, default=str))


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
