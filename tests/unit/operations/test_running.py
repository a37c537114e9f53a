from __future__ import annotations

import os
import signal
import threading

import pytest

from drivetrain.operations.running import Watcher, told_of_signals
from drivetrain.run_store.events import Event, ExecutionStarted, StepStarted
from drivetrain.telling.progress import Progress


class Display(Progress):
    """A progress that breaks on the events it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.shown: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.shown.append(event)
        if self.error is not None and isinstance(event, StepStarted):
            raise self.error


EVENTS = (ExecutionStarted("e", "p", ()), StepStarted("a", 1), StepStarted("b", 1))


def test_a_broken_display_does_not_end_the_run_and_is_not_hidden() -> None:
    display = Display(AssertionError("cannot draw"))
    with Watcher(display) as watcher:
        for event in EVENTS:
            watcher(event)  # raises nothing
    assert len(display.shown) == 2
    with pytest.raises(AssertionError, match="cannot draw"):
        watcher.raise_what_went_wrong()


def test_a_closed_output_does_not_end_the_run() -> None:
    with Watcher(Display(BrokenPipeError())) as watcher:
        for event in EVENTS:
            watcher(event)
    with pytest.raises(BrokenPipeError):
        watcher.raise_what_went_wrong()


def test_the_display_is_notified_of_a_signal_at_once() -> None:
    heard, handled = threading.Event(), threading.Event()

    class Told(Watcher):
        def stopping(self) -> None:
            heard.set()

    before = signal.signal(signal.SIGINT, lambda *_: handled.set())
    try:
        with told_of_signals(Told(Display())):
            os.kill(os.getpid(), signal.SIGINT)
            assert heard.wait(10) and handled.wait(10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.set_wakeup_fd(-1) == -1  # put back
