"""Whoever follows a deployed run, whatever the target: its events, and the log of a step that has not begun."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.following import LogLine, LogReader, Wait, awaited_step, follow, read_log, step_with_log
from drivetrain.deploying.runs import RemoteRun, RemoteStep
from drivetrain.run_store.events import Event, ExecutionStarted, StepFinished, StepStarted
from drivetrain.run_store.model import StepRun


@dataclass
class Followed:
    """A run of which each look is given; each look logs a line more."""

    looks: list[RemoteRun]
    steps: tuple[str, ...] = ("prepare", "train")
    wrong: str | None = None

    def look(self, *, closely: bool = False) -> RemoteRun:
        return self.looks.pop(0)

    def planned(self, run: RemoteRun) -> Sequence[StepRun]:
        return [StepRun(name=name, type="Task", title=name.title()) for name in self.steps]

    def followed(self, wait: Wait) -> AbstractContextManager[None]:
        return nullcontext()

    def log(self, run: RemoteRun, step: RemoteStep, num_lines: int | None) -> LogReader:
        return self

    def new_lines(self, step: RemoteStep) -> Sequence[LogLine]:
        return [LogLine("algo-1", f"{step.name} {step.status}")]

    def waits(self) -> Sequence[str]:
        return ["the log comes later"]

    def problem(self) -> str | None:
        return self.wrong


@dataclass
class Noted(Followed):
    """Notes each look: how closely, and whether it is repeated without an answer."""

    repeats: bool = False
    noted: list[tuple[bool, bool]] = field(default_factory=list[tuple[bool, bool]])
    asked: int = 0
    """How often for the steps that the pipeline has."""

    def planned(self, run: RemoteRun) -> Sequence[StepRun]:
        self.asked += 1
        return super().planned(run)

    def look(self, *, closely: bool = False) -> RemoteRun:
        self.noted.append((closely, self.repeats))
        return super().look(closely=closely)

    @contextmanager
    def followed(self, wait: Wait) -> Generator[None]:
        self.repeats = True
        yield
        self.repeats = False


def step(name: str, status: str = "Executing", no_log: str | None = None, **more: Any) -> RemoteStep:
    given: dict[str, Any] = {"attempts": 1, "may_log": status == "Executing", **more}
    return RemoteStep(name=name, type="Task", title=name.title(), status=status, no_log=no_log, **given)


def run(*steps: RemoteStep, status: str = "Executing", **more: Any) -> RemoteRun:
    ended = 1060.0 if status != "Executing" else None
    return RemoteRun(id="r", pipeline="p", status=status, started=1000.0, ended=ended, steps=steps, **more)


def test_a_deployed_run_is_reported_like_a_local_one() -> None:
    prepared = step("prepare", "Succeeded", started=1000.0, ended=1009.0)
    looks = [run(), run(), run(step("prepare")), run(prepared, status="Failed")]
    told: list[Event] = []
    assert follow(Followed(looks), told.append, wait=lambda _: None).status == "Failed"
    assert told[0] == ExecutionStarted("r", "p", (("prepare", "Task", "Prepare"), ("train", "Task", "Train")))
    assert told[1:-1] == [
        StepStarted("prepare", 1),
        StepFinished("prepare", "Succeeded", 9.0),
        StepFinished("train", "NotExecuted", 0.0),
    ]
    assert (type(told[-1]).__name__, getattr(told[-1], "seconds", None)) == ("ExecutionFinished", 60.0)


def test_jobs_are_asked_again_after_the_first_read() -> None:
    followed = Noted([run(), run(), run(step("prepare", "Failed"), status="Failed")])
    follow(followed, lambda _: None, wait=lambda _: None)
    assert followed.noted == [(False, False), (True, True), (True, True)], "a run that is not there fails at once"


@pytest.mark.parametrize("status", ["Failed", "Stopped"])
def test_a_step_without_a_known_end_ends_like_its_run(status: str) -> None:
    told: list[Event] = []
    follow(Followed([run(), run(step("prepare")), run(status=status)]), told.append, wait=lambda _: None)
    assert told[1] == StepStarted("prepare", 1)
    ends = {event.step: event.status for event in told if isinstance(event, StepFinished)}
    assert ends == {"prepare": status, "train": "NotExecuted"}


def test_the_most_relevant_step_is_chosen_for_its_log() -> None:
    done, failed, running = step("a", "Succeeded"), step("b", "Failed"), step("c")
    assert step_with_log(run(done, running, failed), None) is failed
    assert step_with_log(run(done, running), None) is running
    assert step_with_log(run(done, step("d", "Succeeded"), step("e", no_log="it starts no program")), None).name == "d"
    assert step_with_log(run(done, failed), "A") is done, "by its title, too"


@pytest.mark.parametrize(
    ("there", "name", "says"),
    [
        (run(), None, "No step of execution r has a log yet."),
        (run(status="Failed", note="Why."), None, "No step of execution r has a log. Why."),
        (run(note="Why."), "train", "No step 'train' has begun in execution r. Begun: none. Why."),
        (run(step("train"), step("x")), "trian", "r. Did you mean 'train'? Begun: train, x."),
        (
            run(step("train", no_log="it starts no program")),
            "train",
            "'train' of r has no log: it starts no program.",
        ),
    ],
)
def test_a_step_without_a_log_says_why(there: RemoteRun, name: str | None, says: str) -> None:
    with pytest.raises(UserError) as refused:
        step_with_log(there, name)
    assert str(refused.value).endswith(says)


@pytest.mark.parametrize("name", ["train", "Train", None])
def test_following_waits_for_a_step_to_begin(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    followed = Followed([run(step("train", no_log="no pod of it is known")), run(step("train"))])
    _, found = awaited_step(followed, run(note="no room"), name, lambda _: None)
    assert found.no_log is None and followed.looks == []
    said = "No step has" if name is None else f"Step {name!r} has not"
    assert capsys.readouterr().err == f"{said} begun yet (no room). Following goes on.\n"


def test_waiting_for_a_step_lists_steps_once() -> None:
    followed = Noted([run(), run(), run(step("train"))])
    assert awaited_step(followed, run(), "train", lambda _: None)[1].name == "train" and followed.asked == 1


@pytest.mark.parametrize(
    ("there", "name", "says"),
    [
        (run(), "trian", "Execution r has no step 'trian'. Did you mean 'train'?"),
        (run(status="Failed"), "train", "No step 'train' has begun in execution r"),
        (run(step("train", no_log="it starts no program", may_log=False)), "train", "it starts no program"),
    ],
)
def test_an_impossible_log_is_not_waited_for(there: RemoteRun, name: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        awaited_step(Followed([]), there, name, lambda _: None)
    assert says in str(refused.value)


def test_a_log_is_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    looks = [run(step("train")), run(step("train")), run(), run(step("train", "Succeeded"))]
    lines: list[str] = []
    read_log(Followed(looks), None, lambda line: lines.append(line.text), follow=True, wait=lambda _: None)
    assert lines == [*(3 * ["train Executing"]), "train Succeeded"]
    assert capsys.readouterr().err == "the log comes later\n", "once"
    with pytest.raises(UserError, match="it is gone"):
        read_log(Followed([run(step("train"))], wrong="it is gone"), "train", print)
