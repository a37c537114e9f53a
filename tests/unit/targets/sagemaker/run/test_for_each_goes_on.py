"""A ForEach in an execution that is killed at any instant, stopped, or goes on with another definition."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import Event, StepFinished, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.execution.iterating import items_file
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.kills import dies
from tests.fixtures.local_runs import LocalRuns

MAX_INSTANTS = 200


def get(path: str) -> dict[str, str]:
    return {"Get": path}


def ask(name: str, *needs: str, **arguments: Any) -> dict[str, Any]:
    return {"Name": name, "Type": "Lambda", "Arguments": arguments, "DependsOn": list(needs)}


def loop(items: Any, *body: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    fields = {"IterableItems": items, "MaxConcurrency": 2, "ForEachBody": list(body), **arguments}
    return {"Name": "Each", "Type": "ForEach", "Arguments": fields}


STEPS = [
    loop(
        ["a", "b"],
        ask("First", item=get("ForEach.CurrentItem")),
        ask("Second", "First"),
        Selector={"Pick": "MaxBy", "Field": get("IterationOutput.Second.n")},
    ),
    ask("Last", n=get("Steps.Each.Selected.n")),
]
STUBS: dict[str, dict[str, Any]] = {"First": {"n": 1}, "Second": {"n": 2}, "Second-1": {"n": 3}, "Last": {}}
OPTIONS = Options(pipeline="test", stubs=STUBS, max_parallel=1)


def rows(runs: LocalRuns) -> list[tuple[str, str | None]]:
    with Ledger(runs.home) as ledger:
        return [(row.name, row.status) for row in ledger.steps(ledger.execution("latest").id)]


@pytest.mark.parametrize(
    ("sign", "every"),
    [(1, 4), *(pytest.param(sign, 1, marks=pytest.mark.slow) for sign in (1, -1))],
)
def test_a_for_each_killed_at_any_point_resumes_without_repeating(tmp_path: Path, sign: int, every: int) -> None:
    text = json.dumps({"Steps": STEPS})
    names = ["Each", "First-0", "Second-0", "First-1", "Second-1", "Last"]
    for at in range(1, MAX_INSTANTS, every):
        runs = LocalRuns(tmp_path / str(at))
        if not dies(runs, text, sign * at, OPTIONS):
            break
        with Ledger(runs.home) as ledger:
            begun = ledger.executions()
            done = {row.name for row in ledger.steps(begun[0].id) if row.status == "Succeeded"} if begun else set[str]()
        if not begun or begun[0].status == "Succeeded":
            continue  # before it was entered, or after its end
        summary = Runner(runs.home, runs.events.append).resume("latest", OPTIONS)
        assert (summary.status, rows(runs)) == ("Succeeded", [(name, "Succeeded") for name in names]), at
        again = Counter(event.step for event in runs.of(StepStarted))
        # What had succeeded is not begun again; what was publishing has, too.
        assert not done & again.keys(), at
        assert max(again.values(), default=0) <= 1, at
        with Ledger(runs.home) as ledger:
            each = ledger.step(begun[0].id, "Each").response
            ends = Counter((row.step, row.status) for row in ledger.attempts(begun[0].id))
        assert (each["Selector"], each["SucceededStepCount"]) == ({"StepName": "Second-1", "Index": 1}, 4), at
        assert all(count == 1 for (_, status), count in ends.items() if status == "Succeeded"), at
    else:
        raise AssertionError("it never came to its end")
    assert at > 15  # commits: begin, expand, two or three a step, and the ends


class StopWhen:
    """Stops the run, as a person would, when a step has ended."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, StepFinished) and event.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_run_stopped_inside_a_for_each_is_stopped_with_it_and_goes_on(runs: LocalRuns) -> None:
    text = json.dumps({"Steps": STEPS})
    summary = Runner(runs.home, StopWhen("Second-0")).start(text, {}, OPTIONS)
    assert summary.status == "Stopped"
    stopped = dict(rows(runs))
    assert (stopped["Each"], stopped["First-0"], stopped["Second-1"], stopped["Last"]) == (
        "Stopped",
        "Succeeded",
        "NotExecuted",
        "NotExecuted",
    )
    with Ledger(runs.home) as ledger:
        each = ledger.step(summary.execution, "Each")
    assert (each.response["Status"], each.reason) == ("Stopped", "not all of its steps ran to their ends")
    assert runs.resume(summary.execution, OPTIONS).status == "Succeeded"
    assert not {"First-0", "Second-0"} & {event.step for event in runs.of(StepStarted)}


def test_a_fail_step_stops_the_iterations_that_have_not_begun(runs: LocalRuns) -> None:
    fail = {"Name": "Enough", "Type": "Fail", "Arguments": {"ErrorMessage": "enough"}, "DependsOn": ["Before"]}
    body = runs.processing("Wait", "pass")
    steps = [ask("Before"), loop(["a", "b", "c"], body, MaxConcurrency=1), fail]
    summary = runs.start(steps, stubs={"Before": {}}, max_parallel=1)
    assert summary.status == "Failed"
    found = dict(rows(runs))
    assert (found["Each"], found["Enough"], found["Wait-2"]) == ("Stopped", "Failed", "NotExecuted")


def test_with_another_definition_a_for_each_that_is_the_same_stays_and_another_is_done_again(runs: LocalRuns) -> None:
    broken = runs.processing("Last", "raise SystemExit(1)", DependsOn=["Each"])
    options = Options(pipeline="test", stubs={"First": {}})
    summary = runs.start([loop(["a", "b"], ask("First")), broken], stubs=options.stubs)
    assert summary.status == "Failed"

    def go_on(steps: list[dict[str, Any]]) -> list[str]:
        runs.events = []
        runner = Runner(runs.home, runs.events.append)
        runner.resume(summary.execution, options, text=runs.text(steps))
        return [event.step for event in runs.of(StepStarted)]

    still_broken = runs.processing("Last", "raise SystemExit(2)", DependsOn=["Each"], arguments=["changed"])
    assert go_on([loop(["a", "b"], ask("First")), still_broken]) == ["Last"]
    assert [name for name, _ in rows(runs)] == ["Each", "First-0", "First-1", "Last"]
    assert json.loads(items_file(runs.home, summary.execution, "Each").read_text()) == ["a", "b"]
    mended = runs.processing("Last", "pass", DependsOn=["Each"])
    assert go_on([loop(["c"], ask("First")), mended]) == ["Each", "First-0", "Last"]
    assert rows(runs) == [("Each", "Succeeded"), ("First-0", "Succeeded"), ("Last", "Succeeded")]
    with Ledger(runs.home) as ledger:
        tried = Counter(row.step for row in ledger.attempts(summary.execution))
    assert tried == {"First-0": 2, "First-1": 1, "Last": 3}  # attempts stay as a history
