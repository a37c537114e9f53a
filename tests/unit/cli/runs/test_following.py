"""A run of another process, told as it would tell itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.cli.runs.following import follow_events
from drivetrain.run_store.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    MetricLogged,
    StepExpanded,
    StepFinished,
    StepNoted,
    StepRetrying,
    StepStarted,
)
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.schema import Child
from drivetrain.run_store.writer import LedgerWriter

STEPS = [("prepare", "Processing", "Prepare it"), ("train", "Training", "train")]


def followed(home: Home, happenings: list[Callable[[], object]]) -> list[Event]:
    """What is told of the run e-1, while between two looks something happens."""
    told: list[tuple[Event, float]] = []
    with home.lock("e-1"), Ledger(home) as ledger:
        tell = lambda event, at: told.append((event, at))  # noqa: E731
        assert follow_events(ledger, "latest", tell, wait=lambda seconds: happenings.pop(0)()) == "e-1"
    assert happenings == []
    return [event for event, _ in told]


def begun(tmp_path: Path) -> tuple[Home, LedgerWriter]:
    home = Home(tmp_path)
    home.create()
    writer = LedgerWriter(home)
    writer.begin("e-1", "p", definition_hash="d", request_hash="r", parameters={}, steps=STEPS)
    return home, writer


def test_every_change_is_reported_once_until_the_end(tmp_path: Path) -> None:
    home, writer = begun(tmp_path)

    def train() -> None:
        writer.settle_step("e-1", "prepare", "Cached", cache_of="e-0")
        writer.start_step("e-1", "train", arguments={}, why=("epochs 3 -> 4",))
        writer.note_step("e-1", "train", "waits for data")

    def retry() -> None:
        writer.log_metrics("e-1", "train", 1, [("loss", 1.0, 0.5), ("loss", 2.0, 0.4), ("accuracy", 2.0, 0.9)])
        writer.end_attempt("e-1", "train", 1, "Failed", "the machine broke")
        writer.retry_step("e-1", "train")

    def end() -> None:
        writer.log_metrics("e-1", "train", 2, [("loss", 3.0, 0.3)])
        writer.finish_step("e-1", "train", "Failed", number=2, reason="no rows")
        writer.finish("e-1", "Failed", "train: no rows")

    told = followed(home, [train, lambda: None, retry, end])
    finished, ended = told.pop(-2), told.pop()
    assert told == [
        ExecutionStarted("e-1", "p", tuple(STEPS)),
        StepFinished("prepare", "Cached", 0.0, cache_of="e-0"),
        StepStarted("train", 1, ("epochs 3 -> 4",)),
        StepNoted("train", 1, "waits for data"),
        StepRetrying("train", 1, "the machine broke", 0.0),
        MetricLogged("train", "loss", 0.4, 2.0),  # of the first attempt
        MetricLogged("train", "accuracy", 0.9, 2.0),
        StepStarted("train", 2),
        MetricLogged("train", "loss", 0.3, 3.0),
    ]
    assert isinstance(finished, StepFinished) and (finished.step, finished.status) == ("train", "Failed")
    assert finished.reason == "no rows" and finished.seconds > 0
    assert isinstance(ended, ExecutionFinished) and (ended.status, ended.reason) == ("Failed", "train: no rows")


def test_the_steps_of_a_loop_are_reported_when_they_appear(tmp_path: Path) -> None:
    home, writer = begun(tmp_path)
    child = Child(name="train-0", type="Training", title="train 0", iteration=0, item="a")
    happenings = [
        lambda: writer.expand_step("e-1", "train", arguments={}, children=[child]),
        lambda: writer.finish("e-1", "Stopped", None),
    ]
    told = followed(home, happenings)
    assert StepExpanded("train", (("train-0", "Training", "train 0"),)) in told
    assert isinstance(told[-1], ExecutionFinished) and told[-1].status == "Stopped"


def test_following_a_run_with_a_dead_process_reports_no_end(tmp_path: Path) -> None:
    home, writer = begun(tmp_path)
    writer.start_step("e-1", "prepare", arguments={})
    writer.reopen("e-1")  # prepare waits again, tried once
    told: list[Event] = []
    with Ledger(home) as ledger:
        follow_events(ledger, "e-1", lambda event, at: told.append(event))
    assert told == [ExecutionStarted("e-1", "p", tuple(STEPS))]


def test_a_step_without_an_end_in_the_ledger_is_reported_without_one(tmp_path: Path) -> None:
    home, writer = begun(tmp_path)
    writer.settle_step("e-1", "prepare", "NotExecuted")
    writer.finish("e-1", "Stopped", None)
    told: list[Event] = []
    with Ledger(home) as ledger:
        follow_events(ledger, "e-1", lambda event, at: told.append(event))
    assert told[1:-1] == [StepFinished("prepare", "NotExecuted", 0.0)]
    assert isinstance(told[-1], ExecutionFinished)


def test_earlier_events_are_reported_in_order_with_their_own_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("drivetrain.run_store.writer.time.time", lambda: clock[0])
    home, writer = begun(tmp_path)

    def at(seconds: float, happens: Callable[[], object]) -> None:
        clock[0] = 1000.0 + seconds
        happens()

    at(1, lambda: writer.start_step("e-1", "train", arguments={}))
    at(2, lambda: writer.start_step("e-1", "prepare", arguments={}))
    writer.log_metrics("e-1", "train", 1, [("loss", 3.0, 0.5)])
    at(6, lambda: writer.end_attempt("e-1", "train", 1, "Failed", "broke"))
    at(7, lambda: writer.retry_step("e-1", "train"))
    at(9, lambda: writer.finish_step("e-1", "prepare", "Succeeded", number=1))
    at(20, lambda: writer.finish_step("e-1", "train", "Succeeded", number=2))
    at(21, lambda: writer.finish("e-1", "Succeeded", None))
    clock[0] = 5000.0  # when somebody follows it
    told: list[tuple[str, float]] = []
    with Ledger(home) as ledger:
        follow_events(ledger, "e-1", lambda event, at: told.append((type(event).__name__, at - 1000.0)))
    assert told == [
        ("ExecutionStarted", 0.0),
        ("StepStarted", 2.0),
        ("MetricLogged", 4.0),
        ("StepStarted", 7.0),  # the second attempt at training: the first one was over before anybody looked
        ("StepFinished", 9.0),
        ("StepFinished", 20.0),
        ("ExecutionFinished", 21.0),
    ]
