from __future__ import annotations

import json

from drivetrain.run_store.events import (
    CacheExplained,
    Event,
    ExecutionFinished,
    ExecutionStarted,
    MetricLogged,
    StepFinished,
    StepRetrying,
    StepStarted,
)
from drivetrain.telling.progress import METRICS_EVERY_S, EventLines, PlainProgress, RunView

STEPS = (("prepare", "Processing", "prepare"), ("train", "Training", "Train it"), ("gate", "Condition", "gate"),
         ("stop", "Fail", "stop"))  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Told:
    """Lines of a PlainProgress, without the time before them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.clock = Clock()
        self.progress = PlainProgress(self.lines.append, self.clock)

    def __call__(self, *events: Event) -> list[str]:
        before = len(self.lines)
        for event in events:
            self.progress(event)
        return [line[11:] for line in self.lines[before:]]


def test_a_line_when_something_starts_or_ends() -> None:
    told = Told()
    assert told(ExecutionStarted("e-1", "retraining", STEPS)) == ["retraining starts: execution e-1, 4 steps"]
    assert told(StepFinished("prepare", "Cached", 0.0, cache_of="e-0")) == ["prepare: cached, from e-0"]
    assert told(StepStarted("train", 1)) == ["train: started"]
    assert told(StepFinished("train", "Succeeded", 22.34)) == ["train: succeeded in 22.3 s"]
    assert told(StepFinished("gate", "Succeeded", 0.0, value="yes")) == ["gate: succeeded: yes"]
    assert told(StepFinished("stop", "NotExecuted", 0.0, reason="other branch")) == ["stop: not run"]
    assert told(ExecutionFinished("e-1", "Succeeded", 26.0)) == ["retraining succeeded in 26.0 s"]


def test_warnings_show_the_paths_of_the_user() -> None:
    view = RunView()
    view.apply(StepStarted("prepare", 1))
    warned = "warning: all is prepared anew: the sets below /opt/ml/processing/input/previous are of different runs"
    step = view.apply(StepFinished("prepare", "Succeeded", 1.0, why=(warned,)))
    assert step is not None and step.why == (warned.replace("/opt/ml/processing/input/", ""),)


def test_many_steps_have_one_line_each() -> None:
    told = Told()
    names = [f"step-{number}" for number in range(40)]
    told(ExecutionStarted("e-1", "wide", tuple((name, "Processing", name) for name in names)))
    lines: list[str] = []
    for name in names:
        lines += told(StepStarted(name, 1, why=("code changed",)), StepFinished(name, "Succeeded", 0.5))
    assert lines == [f"{name}: succeeded in 0.50 s (code changed)" for name in names]


def test_every_line_has_a_time() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS))
    told.clock.now += 75
    told(StepStarted("train", 1))
    assert [line[:9] for line in told.lines] == ["   0.00 s", "1 min 15 "]


def test_the_reason_to_run_a_step_is_shown() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS))
    assert told(StepStarted("train", 1, ("max_digits 4 -> 3",))) == ["train: max_digits 4 -> 3, so it runs"]


def test_retries() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS), StepStarted("train", 1, ("x",)))
    assert told(StepRetrying("train", 1, "Traceback\n  x\nOSError: gone", 4.0), StepStarted("train", 2)) == [
        "train: attempt 1 failed (OSError: gone); the next one starts in 4 s",
        "train: attempt 2 started",
    ]


def test_a_failure_shows_its_exception_line() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS), StepStarted("train", 1))
    assert told(StepFinished("train", "Failed", 1.0, reason="Traceback\n  File\nValueError: bad")) == [
        "train: failed in 1.00 s: ValueError: bad"
    ]


def test_metrics_are_printed_at_intervals_and_at_the_end() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS), StepStarted("train", 1))

    def epoch(loss: float) -> list[str]:
        return told(MetricLogged("train", "train_loss", loss, 1.0), MetricLogged("train", "accuracy", 1 - loss, 1.0))

    assert epoch(0.9) == []
    told.clock.now += METRICS_EVERY_S - 0.1
    assert epoch(0.5) == []
    told.clock.now += 0.2
    assert epoch(0.25) == ["train: train_loss 0.2500, accuracy 0.5000"]
    assert epoch(0.2) == []
    assert told(StepFinished("train", "Succeeded", 9.0)) == [
        "train: succeeded in 9.00 s: train_loss 0.2000, accuracy 0.8000"
    ]


def test_the_cache_explains_itself() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS))
    assert told(
        CacheExplained("train", False, ("epochs 1 -> 2",), (("HyperParameters.epochs", '"1"', '"2"'),), ("instance",))
    ) == ["train: cache miss: epochs 1 -> 2", '    HyperParameters.epochs: "1" -> "2"', "    warning: instance"]


def test_a_resumed_run_lists_finished_steps() -> None:
    told = Told()
    assert told(ExecutionStarted("e-1", "p", STEPS, resumed=True, finished=("prepare",))) == [
        "p goes on: execution e-1, 4 steps, 1 done before"
    ]


def test_program_output_cannot_move_the_cursor() -> None:
    told = Told()
    told(ExecutionStarted("e-1", "p", STEPS), StepStarted("train", 1))
    (line,) = told(StepFinished("train", "Failed", 1.0, reason="\x1b[2J\x1b[31mgone"))
    assert "\x1b" not in line


def test_events_as_json_lines() -> None:
    lines: list[str] = []
    progress = EventLines(lines.append, lambda: 12.5)
    progress(ExecutionStarted("e-1", "p", STEPS))
    progress(StepStarted("train", 1, ("epochs 1 -> 2",)))
    first, second = map(json.loads, lines)
    assert first["event"] == "execution_started" and first["steps"][1] == ["train", "Training", "Train it"]
    assert second == {
        "event": "step_started", "time": 12.5, "step": "train", "attempt": 1, "why": ["epochs 1 -> 2"],
    }  # fmt: skip
