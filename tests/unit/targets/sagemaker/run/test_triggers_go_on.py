"""Steps with a Trigger in an execution that is killed and goes on: of the two sides of a failure one is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import StepFinished, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.kills import dies
from tests.fixtures.local_runs import BUCKET, LocalRuns

MAX_INSTANTS = 100
# There is none until it is put: who reads it fails, and does not fail when it is run again.
LATE = {"Std:JsonGet": {"S3Uri": f"{BUCKET}/late.json", "Path": "n"}}


def ask(name: str, *needs: Any, **arguments: Any) -> dict[str, Any]:
    return {"Name": name, "Type": "Lambda", "Arguments": arguments, "DependsOn": list(needs)}


def loop(name: str, *body: dict[str, Any]) -> dict[str, Any]:
    fields = {"IterableItems": ["x"], "MaxConcurrency": 2, "ForEachBody": list(body)}
    return {"Name": name, "Type": "ForEach", "Arguments": fields}


def failed(step: str) -> dict[str, str]:
    return {"Step": step, "Trigger": "Failed"}


STUBS: dict[str, dict[str, Any]] = {"First": {"FailureReason": ""}, "Mend": {}, "Told": {}, "Other": {}, "Last": {}}
OPTIONS = Options(pipeline="test", stubs=STUBS, max_parallel=1)


@pytest.mark.parametrize(
    ("steps", "first", "mend"),
    [
        pytest.param([ask("First", n=LATE), ask("Mend", failed("First"))], "First", "Mend", marks=pytest.mark.slow),
        pytest.param(
            [loop("Each", ask("First", n=LATE)), ask("Mend", failed("Each"))], "Each", "Mend", marks=pytest.mark.slow
        ),
        pytest.param(
            [ask("First", n=LATE), loop("Each", ask("Mend", failed("First")))],
            *("First", "Mend-0"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_handled_failure_stays_handled_after_a_kill_at_any_point(
    tmp_path: Path, steps: list[dict[str, Any]], first: str, mend: str
) -> None:
    field = "Status" if first == "Each" else "FailureReason"
    told = ask("Told", steps[1]["Name"], failed(first), why={"Get": f"Steps.{first}.{field}"})
    text = json.dumps({"Steps": [*steps, ask("Other", first), told, ask("Last")]})
    mended = 0
    for at in range(1, MAX_INSTANTS):
        runs = LocalRuns(tmp_path / str(at))
        if not dies(runs, text, at, OPTIONS):
            break
        with Ledger(runs.home) as ledger:
            begun = ledger.executions()
            if not begun or begun[0].status != "Interrupted":
                continue  # before it was entered, or after its end
            before = {row.name: row for row in ledger.steps(begun[0].id)}
        runs.put("late.json", '{"n": 1}')
        summary = Runner(runs.home, runs.events.append).resume("latest", OPTIONS)
        after = runs.statuses()
        # What was publishing has succeeded, too.
        was_mended = mend in before and before[mend].status == "Succeeded"
        if was_mended or after.get(mend) == "Succeeded":
            mended += 1
            assert summary.status == "CompletedWithFailures", at
            assert (after[first], after["Other"], after["Told"]) == ("Failed", "NotExecuted", "Succeeded"), at
            assert first not in {event.step for event in runs.of(StepStarted)}, at
            assert (first, "Failed") in {(event.step, event.status) for event in runs.of(StepFinished)}, at
            with Ledger(runs.home) as ledger:
                now = {row.name: row for row in ledger.steps(summary.execution)}
            assert (now[first].reason, now[first].ended) == (before[first].reason, before[first].ended), at
            assert now["Told"].arguments == {"why": "Failed" if field == "Status" else before[first].reason}, at
        else:
            assert summary.status == "Succeeded", at
            assert (after[first], after["Other"], after.get(mend, "NotExecuted")) == (
                *("Succeeded", "Succeeded"),
                "NotExecuted",
            ), at
    else:
        raise AssertionError("it never came to its end")
    assert mended > 2
