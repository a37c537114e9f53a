"""How a run that did not come to its end says where it goes on; and exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.cli.outcome import as_json, exit_code, summary
from drivetrain.run_store.model import StepRun
from drivetrain.telling.content import ModelFacts, RunFacts, SavedState

HASH = "4316cb9d" * 8
SAVED = {"train": SavedState(training_step=1200, uri=f"s3://b/checkpoints/{HASH}/step-00001200/")}
GO_ON = "Go on: drivetrain runs resume e-1 --home h"


def run(status: str, **more: Any) -> RunFacts:
    step = StepRun(name="train", type="Training", title="train", status=status, reason="interrupted too often")
    return RunFacts(id="e-1", pipeline="nightly", status=status, started=1.0, ended=2.0, steps=(step,), **more)


@pytest.mark.parametrize(
    ("status", "saved", "goes_on"),
    [
        ("Failed", SAVED, True),
        ("Failed", {}, False),  # it would fail again
        ("Interrupted", {}, True),
        ("Interrupted", SAVED, True),
        ("Succeeded", {}, False),
        ("Stopped", SAVED, False),  # the command says so itself
    ],
)
def test_a_resumable_run_prints_the_command(status: str, saved: dict[str, SavedState], goes_on: bool) -> None:
    lines = summary(run(status, goes_on_from=saved), None, home_option=" --home h").splitlines()
    assert (GO_ON in lines) is goes_on
    where = "train goes on from step 1,200: s3://b/checkpoints/4316cb9d…/step-00001200/"
    assert (where in lines) is bool(saved)


def test_the_command_that_approves_finds_the_same_models() -> None:
    model = ModelFacts(group="digits", version=2, status="PendingManualApproval")
    lines = summary(run("Succeeded", models=(model,)), None, home_option=" --home h").splitlines()
    assert "  drivetrain models approve digits 2 --home h" in lines


def test_json_output_has_the_full_path() -> None:
    said = as_json(run("Failed", goes_on_from=SAVED))
    assert said["goes_on_from"] == {
        "train": {"training_step": 1200, "uri": f"s3://b/checkpoints/{HASH}/step-00001200/"}
    }
    assert said["interrupted"] == {}


def waiting(status: str, values: dict[str, str | None]) -> list[str]:
    steps = [
        StepRun(name=name, type="Processing", title=name, status="Succeeded", value=values[name]) for name in values
    ]
    models = (ModelFacts(group="customers", version=3, status=status),)
    facts = RunFacts(
        id="e-1",
        pipeline="p",
        status="Succeeded",
        started=1.0,
        ended=2.0,
        steps=tuple(steps),
        models=models,
        unhealthy=any(step.unhealthy for step in steps),
    )
    return summary(facts, None).splitlines()


def test_warnings_are_shown_when_a_model_waits_for_approval() -> None:
    lines = waiting("PendingManualApproval", {"data": "warning: test has no row of 1 of 2 classes: 1", "train": "x"})
    assert next(line for line in lines if " data " in line).startswith("! data ")
    assert next(line for line in lines if " train " in line).startswith("✓ train ")
    assert "customers version 3: waiting for approval" in lines
    assert lines[-1] == "  ! data: test has no row of 1 of 2 classes: 1"


def test_an_unhealthy_model_waits_for_approval_with_a_note() -> None:
    lines = waiting("PendingManualApproval", {"evaluate": "warning: unhealthy: all 70 samples are taken for class 0"})
    assert "customers version 3: waiting for approval, unhealthy" in lines
    assert lines[-1] == "  ! evaluate: unhealthy: all 70 samples are taken for class 0"


def test_an_approved_model_repeats_no_warning() -> None:
    lines = waiting("Approved", {"data": "warning: test has no row of 1 of 2 classes: 1"})
    assert lines[-1] == "customers version 3: approved"


def ended(status: str, *reasons: str) -> RunFacts:
    steps = tuple(
        StepRun(name=f"s{n}", type="Processing", title="s", status="Failed", reason=reason)
        for n, reason in enumerate(reasons)
    )
    return RunFacts(id="e", pipeline="p", status=status, started=0.0, ended=1.0, steps=steps)


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (ended("Succeeded"), 0),
        (ended("CompletedWithFailures", "ValueError: x"), 0),
        (ended("Failed", "ValueError: x"), 1),
        (ended("Failed", "error: data.csv, row 3: 'x' is no number"), 2),
        (ended("Failed", "error: bad", "ValueError: x"), 1),
        (ended("Failed"), 1),
        (ended("Stopped"), 130),
    ],
)
def test_exit_codes(facts: RunFacts, code: int) -> None:
    assert exit_code(facts) == code
