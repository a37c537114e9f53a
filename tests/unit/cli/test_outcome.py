"""How a run that did not come to its end says where it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.cli.outcome import as_json, summary
from drivetrain.report.content import ModelFacts, RunFacts, SavedState, StepFacts

HASH = "4316cb9d" * 8
SAVED = {"train": SavedState(training_step=1200, uri=f"s3://b/checkpoints/{HASH}/step-00001200/")}
GO_ON = "Go on: drivetrain runs resume e-1 --home h"


def run(status: str, **more: Any) -> RunFacts:
    step = StepFacts(name="train", type="Training", title="train", status=status, reason="interrupted too often")
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
def test_a_run_that_can_go_on_says_how(status: str, saved: dict[str, SavedState], goes_on: bool) -> None:
    lines = summary(run(status, goes_on_from=saved), None, home_option=" --home h").splitlines()
    assert (GO_ON in lines) is goes_on
    where = "train goes on from step 1,200: s3://b/checkpoints/4316cb9d…/step-00001200/"
    assert (where in lines) is bool(saved)


def test_the_command_that_approves_finds_the_same_models() -> None:
    model = ModelFacts(group="digits", version=2, status="PendingManualApproval")
    lines = summary(run("Succeeded", models=(model,)), None, home_option=" --home h").splitlines()
    assert "  drivetrain models approve digits 2 --home h" in lines


def test_scripts_get_the_whole_place() -> None:
    said = as_json(run("Failed", goes_on_from=SAVED))
    assert said["goes_on_from"] == {
        "train": {"training_step": 1200, "uri": f"s3://b/checkpoints/{HASH}/step-00001200/"}
    }
    assert said["interrupted"] == {}
