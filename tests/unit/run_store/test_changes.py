"""Two looks at a run become the events between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drivetrain.run_store.changes import changes, start_of, unstarted
from drivetrain.run_store.events import (
    Event,
    ExecutionFinished,
    MetricLogged,
    StepFinished,
    StepInterrupted,
    StepNoted,
    StepRestarted,
    StepRetrying,
    StepStarted,
)
from drivetrain.run_store.model import Job, Metric, Run, StepRun
from drivetrain.telling.progress import RunView, StepView

NOW = 1000.0
RUN = Run(id="e-1", pipeline="p", status="Executing", started=0.0)
# The status and attempts of a step in the order of its life; each look sees it at the same place or a later one.
_ENDS = ("Succeeded", "Failed", "Stopped")
LIVES = [
    [("Waiting", 0), ("NotExecuted", 0)],
    [("Waiting", 0), ("Cached", 0)],
    *([("Waiting", 0), ("Executing", 1), (end, 1)] for end in _ENDS),
    *([("Waiting", 0), ("Executing", 1), ("Failed", 1), ("Executing", 2), (end, 2)] for end in _ENDS),
    [("Waiting", 0), ("NotExecuted", 0), ("Executing", 1), ("Succeeded", 1)],
    [("Waiting", 0), ("Executing", 1), ("Stopped", 1), ("Executing", 1), ("Failed", 1)],
]


def step(name: str, status: str = "Executing", **more: Any) -> StepRun:
    known: dict[str, Any] = {"attempts": int(status not in ("Waiting", "Cached"))}
    return StepRun(name=name, type="Training", title=name, status=status, **known | more)


def events(*looks: StepRun) -> list[Event]:
    """What the looks at a single step tell, the first one included."""
    told: list[Event] = []
    before = unstarted(RUN, looks[:1])
    for look in looks:
        now = replace(RUN, steps=(look,))
        told += [event for event, _ in changes(before, now, time=NOW)]
        before = now
    return told


@st.composite
def looks(draw: st.DrawFn) -> list[Run]:
    """Several looks at a run of some steps, the last one after its end."""
    lives = [draw(st.sampled_from(LIVES)) for _ in range(draw(st.integers(1, 4)))]
    places = [0] * len(lives)
    found: list[Run] = []
    for last in [False] * draw(st.integers(1, 4)) + [True]:
        places = [
            len(life) - 1 if last else draw(st.integers(place, len(life) - 1))
            for place, life in zip(places, lives, strict=True)
        ]
        steps = [_at(f"s{index}", *life[place]) for index, (place, life) in enumerate(zip(places, lives, strict=True))]
        status = "Failed" if last else "Executing"
        found.append(replace(RUN, status=status, ended=900.0 if last else None, steps=tuple(steps)))
    return found


def _at(name: str, status: str, attempts: int) -> StepRun:
    ended = None if status in ("Waiting", "Executing") else 30.0
    started = None if status in ("Waiting", "NotExecuted") else 10.0
    value = f"{name} {status} {attempts}" if started else None
    return step(name, status, attempts=attempts, started=started, ended=ended, value=value)


def replayed(looks: Sequence[Run]) -> list[StepView]:
    view = RunView(lambda: 0.0)
    before = unstarted(looks[0], looks[0].steps)
    view.apply(start_of(before))
    for now in looks:
        for event, _ in changes(before, now, time=NOW):
            view.apply(event)
        before = now
    assert view.status == looks[-1].status
    return list(view.steps.values())


@given(looks())
def test_many_polls_report_the_same_as_one_poll_at_the_end(looks: list[Run]) -> None:
    seen = replayed(looks)
    assert seen == replayed(looks[-1:])
    assert [(each.name, each.status, each.value) for each in seen] == [
        (each.name, each.status, each.value) for each in looks[-1].steps
    ]


def test_nothing_is_reported_twice() -> None:
    done = step("train", "Succeeded", started=1.0, ended=3.0)
    assert events(step("train"), step("train"), done, done) == [
        StepStarted("train", 1),
        StepFinished("train", "Succeeded", 2.0),
    ]


def test_without_recorded_attempts_the_reason_comes_with_the_next_one() -> None:
    assert events(step("train"), step("train", attempts=2, reason="the host broke")) == [
        StepStarted("train", 1),
        StepRetrying("train", 1, "the host broke", 0.0),
        StepStarted("train", 2),
    ]


def test_a_retried_step_is_reported_again() -> None:
    failed = step("train", "Failed", started=1.0, ended=3.0, reason="the host broke")
    again = [
        StepStarted("train", 1),
        StepFinished("train", "Failed", 2.0, "the host broke"),
        StepRetrying("train", 1, "the host broke", 0.0),
        StepStarted("train", 2),
        StepFinished("train", "Succeeded", 8.0),
    ]
    done = step("train", "Succeeded", attempts=2, started=1.0, ended=9.0)
    assert events(failed, step("train", attempts=2), step("train", attempts=2), done) == again
    assert events(failed, done) == again, "the second attempt ended between two looks"


def test_a_resumed_step_is_reported_again() -> None:
    ended, on = step("loop", "Succeeded", started=1.0, ended=3.0), step("loop", started=1.0)
    finished = StepFinished("loop", "Succeeded", 2.0)
    assert events(ended, on, ended) == [StepStarted("loop", 1), finished, StepStarted("loop", 1), finished]
    failed = step("loop", "Failed", started=1.0, ended=3.0)
    assert events(ended, failed)[2:] == [StepFinished("loop", "Failed", 2.0)]


def test_the_phases_and_interruptions_of_a_job_are_reported() -> None:
    phases = [Job(phase="Downloading"), Job(phase="Training"), Job(phase="Interrupted", interruptions=1)]
    phases += [Job(phase="Training", interruptions=1), Job(phase="Training", interruptions=2)]
    told = events(*(step("train", job=job) for job in phases))
    assert told == [
        StepStarted("train", 1),
        StepNoted("train", 1, "downloading"),
        StepNoted("train", 1, "training"),
        StepInterrupted("train", 1, None, 2, "the spot machines were taken away"),
        StepRestarted("train", 1, 2),
        StepInterrupted("train", 1, None, 3, "the spot machines were taken away"),
    ]


def test_a_metric_without_a_time_has_the_time_of_the_step() -> None:
    first, second = Metric(value=0.5), Metric(value=0.4)
    told = events(*(step("train", started=900.0, logged={"loss": metric}) for metric in (first, first, second)))
    assert told[1:] == [MetricLogged("train", "loss", 0.5, 100.0), MetricLogged("train", "loss", 0.4, 100.0)]


def test_a_cached_step_takes_no_time() -> None:
    cached = step("train", "Cached", started=1.0, ended=9.0, cache_of="e-0")
    assert events(cached) == [StepFinished("train", "Cached", 0.0, cache_of="e-0")]


def test_no_end_is_reported_for_a_run_with_a_dead_process() -> None:
    gone = replace(RUN, status="Interrupted", ended=5.0)
    assert list(changes(RUN, gone, time=NOW)) == []
    ended = replace(gone, status="Stopped", reason="Ctrl-C", idle=2.0)
    assert [event for event, _ in changes(RUN, ended, time=NOW)] == [ExecutionFinished("e-1", "Stopped", 3.0, "Ctrl-C")]
