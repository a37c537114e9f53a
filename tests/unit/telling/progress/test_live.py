from __future__ import annotations

import io
import sys

from drivetrain.run_store.events import (
    ExecutionStarted,
    MetricLogged,
    StepFinished,
    StepNoted,
    StepRetrying,
    StepStarted,
)
from drivetrain.telling.progress.live import LiveProgress, Redrawn

STEPS = (("prepare", "Processing", "prepare"), ("train", "Training", "Train it"), ("stop", "Fail", "stop"))


class Screen:
    """What a live progress draws, as plain text."""

    def __init__(self, width: int = 100, height: int = 30) -> None:
        self.now = 0.0
        self.file = io.StringIO()
        self.progress = LiveProgress(self.file, lambda: self.now, lambda: (width, height))

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.progress.lines()]


def test_a_line_a_step_with_time_and_metrics() -> None:
    screen = Screen()
    screen.progress(ExecutionStarted("e-1", "retraining", STEPS))
    screen.progress(StepFinished("prepare", "Cached", 0.0, cache_of="e-0"))
    screen.progress(StepStarted("train", 1, ("epochs 10 -> 12",)))
    screen.progress(MetricLogged("train", "train_loss", 0.25, 1.0))
    screen.now = 12.34
    assert screen.lines() == [
        "retraining  12.3 s  e-1",
        "↺ prepare   cached                from e-0",
        "⠇ Train it  running       12.3 s  train_loss 0.2500, epochs 10 -> 12",
        "· stop      waiting",
    ]
    assert screen.lines()[2][0] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def test_narrow_terminals_lose_words_and_never_wrap() -> None:
    for width in (20, 33, 50, 63, 64, 80):
        screen = Screen(width=width)
        screen.progress(ExecutionStarted("e-1234567890", "a-pipeline-with-a-long-name", STEPS))
        screen.progress(StepStarted("train", 1, ("something long " * 9,)))
        lines = screen.lines()
        assert len(lines) == 4
        assert all(len(line) <= width for line in lines)
        assert any("Train" in line for line in lines)
        assert any("running" in line for line in lines) == (width >= 64)


def test_as_many_metrics_as_fit() -> None:
    def shown(width: int) -> str:
        screen = Screen(width=width)
        screen.progress(ExecutionStarted("e-1", "p", STEPS))
        screen.progress(StepStarted("train", 1))
        for name in ("train_loss", "validation_loss", "validation_accuracy", "samples_per_second"):
            screen.progress(MetricLogged("train", name, 0.5, 1.0))
        return screen.lines()[2].partition(" s  ")[2]

    assert shown(140) == "train_loss 0.5000, validation_accuracy 0.5000, samples_per_second 0.5000"
    assert shown(90) == "train_loss 0.5000, validation_accuracy 0.5000"
    assert shown(60) == "train_loss 0.5000"


def test_more_steps_than_lines() -> None:
    steps = tuple((f"s{n}", "Processing", f"s{n}") for n in range(500))
    screen = Screen(height=10)
    screen.progress(ExecutionStarted("e-1", "big", steps))
    with screen.progress:
        for n in range(100):
            screen.progress(StepStarted(f"s{n}", 1))
        for n in range(90):
            screen.progress(StepFinished(f"s{n}", "Succeeded", 1.0))
        lines = screen.lines()
        assert len(lines) <= 10
        assert lines[-1] == "4 more running, 90 of 500 steps done, 400 waiting"
    # Those that are done have scrolled away, and can be scrolled back to.
    assert all(f"s{n} " in screen.file.getvalue() for n in range(90))


def test_a_retry_and_a_failure() -> None:
    screen = Screen()
    screen.progress(ExecutionStarted("e-1", "p", STEPS))
    screen.progress(StepStarted("train", 1))
    screen.progress(StepRetrying("train", 1, "broke", 4.0))
    assert "retrying" in screen.lines()[2] and "attempt 1 failed, the next one in 4 s" in screen.lines()[2]
    screen.progress(StepStarted("train", 2))
    screen.progress(StepFinished("train", "Failed", 5.0, reason="Traceback\n\x1b[31mValueError: no"))
    assert screen.lines()[2].startswith("✗ Train it  failed        5.00 s  attempt 2,")
    assert "ValueError: no" in screen.lines()[2] and "\x1b" not in screen.lines()[2]


def test_requests_to_the_user_are_complete_and_notes_are_cut() -> None:
    asked = "waits for: drivetrain runs callback h2Xc0pQ9aB --output approved=BOOLEAN --home /some/where/far/away"
    for asks in (True, False):
        screen = Screen(width=60)
        with screen.progress:
            screen.progress(ExecutionStarted("e-1", "retraining", STEPS))
            screen.progress(StepStarted("train", 1))
            screen.progress(StepNoted("train", 1, asked, asks=asks))
        # A terminal breaks the long line as it likes; copied, it is one.
        assert (f"train {asked}" in screen.file.getvalue()) == asks
        assert all(len(line) <= 60 for line in screen.lines())


def test_warnings_of_a_step_are_complete_after_its_end() -> None:
    warning = "warning: leakage: 12 of 100 rows of validation are equal to a row of train, but for the key"
    for value in (warning, warning.removeprefix("warning: ")):
        screen = Screen(width=60)
        with screen.progress:
            screen.progress(ExecutionStarted("e-1", "retraining", STEPS))
            screen.progress(StepFinished("prepare", "Succeeded", 5.0, value=value))
        assert (f"prepare: {value}\n" in screen.file.getvalue()) == (value == warning)
        assert all(len(line) <= 60 for line in screen.lines())


def test_printed_lines_stay_above_the_live_display() -> None:
    screen = io.StringIO()
    drawn = ["a", "b"]
    redrawn = Redrawn(lambda: drawn, screen, frames_per_second=1)
    before = sys.stdout, sys.stderr
    redrawn.start()
    redrawn.draw()
    print("said")
    print("half", end="")
    drawn.append("c")
    redrawn.stop()
    assert (sys.stdout, sys.stderr) == before
    again = "\x1b[2F\x1b[J"
    expected = ["\x1b[?25la\nb\n", "said\na\nb\n", "half\na\nb\nc\n"]
    assert screen.getvalue() == again.join(expected) + "\x1b[3F\x1b[Ja\nb\nc\n\x1b[?25h"
