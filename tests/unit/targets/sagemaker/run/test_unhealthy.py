"""A health rule that failed a training stands in the step's line, and its tick is another sign."""

import dataclasses
import json
from typing import Any

import pytest

from drivetrain.cli.outcome import as_json, headline, listed, remark, steps_table
from drivetrain.run_store.events import ExecutionFinished, ExecutionStarted, StepFinished, unhealthy_part
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.search import search
from drivetrain.targets.sagemaker.run.step_types.training import failed_rule
from drivetrain.telling.content import RunFacts
from drivetrain.telling.content.from_ledger import note
from drivetrain.telling.page.sections import steps_section
from drivetrain.telling.progress import PlainProgress
from tests.fixtures.local_runs import LocalRuns

FOUND = {
    "rule": "loss_not_decreasing",
    "step": 240,
    "action": "fail",
    "text": "the loss is 2.9 after 240 steps",
    "advice": "Look at the labels; lower learning_rate.",
}
SAID = "loss_not_decreasing at step 240: the loss is 2.9 after 240 steps. Look at the labels; lower learning_rate."


def _told(*findings: Any) -> str | None:
    return failed_rule(json.dumps({"healthy": not findings, "findings": findings}).encode())


def _run(value: str | None, status: str = "Succeeded") -> RunFacts:
    step = StepRun(name="train", type="Training", title="train", status=status, value=value)
    return RunFacts(
        id="a",
        pipeline="p",
        status="Succeeded",
        started=0.0,
        ended=2.0,
        steps=(step,),
        unhealthy=bool(step.unhealthy) and status != "Failed",
    )


def test_the_first_failed_rule_is_shown_with_its_advice() -> None:
    warned = {**FOUND, "rule": "saturated_updates", "action": "warn"}
    stopped = {**FOUND, "rule": "nan_or_inf", "action": "stop"}
    assert _told(warned, FOUND) == f"unhealthy: {SAID}"
    assert _told(FOUND, stopped) == f"unhealthy: {SAID} Failed, too: nan_or_inf."
    assert _told(warned) is None
    assert _told() is None


@pytest.mark.parametrize("written", [b"", b"[1]", b"\xff", b'{"findings": 3}', b'{"findings": [{"action": "fail"}]}'])
def test_foreign_files_are_no_findings(written: bytes) -> None:
    assert failed_rule(written) is None


@pytest.mark.parametrize("before", ["", "starts from nothing; ", "warning: ", "interrupted 2 times; "])
def test_the_part_is_found_wherever_it_stands(before: str) -> None:
    assert unhealthy_part(f"{before}unhealthy: {SAID}") == SAID


@pytest.mark.parametrize("value", [None, "", "version 3", "warning: nothing is unhealthy: here"])
def test_other_values_are_healthy(value: str | None) -> None:
    assert unhealthy_part(value) == ""


@pytest.mark.parametrize("status", ["Succeeded", "Cached"])
def test_an_unhealthy_step_has_no_tick_anywhere(status: str) -> None:
    run = _run(f"starts from nothing; unhealthy: {SAID}", status)
    table = steps_table(run)
    assert "! train" in table
    assert "unhealthy" in table
    assert SAID in remark(run.steps[0])
    assert note(run.steps[0]) == "loss_not_decreasing"
    page = str(steps_section(run))
    assert "status is-unhealthy" in page
    assert "lower learning_rate" in page
    assert as_json(run)["steps"][0]["unhealthy"] == SAID


def test_a_healthy_step_keeps_its_tick() -> None:
    run = _run("starts from nothing")
    assert "✓ train" in steps_table(run)
    assert as_json(run)["steps"][0]["unhealthy"] is None


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (StepFinished("train", "Succeeded", 2.0, value=f"unhealthy: {SAID}"), f"train: unhealthy in 2.00 s: {SAID}"),
        (
            StepFinished("train", "Cached", 0.0, value=f"unhealthy: {SAID}", cache_of="b"),
            f"train: cached, from b: unhealthy: {SAID}",
        ),
    ],
)
def test_plain_progress_says_it(event: StepFinished, line: str) -> None:
    said: list[str] = []
    progress = PlainProgress(said.append, lambda: 0.0)
    progress(ExecutionStarted("a", "p", (("train", "Training", "train"),)))
    progress(event)
    progress(ExecutionFinished("a", "Succeeded", 3.0))
    assert line in said[1]
    assert "p unhealthy in 3.00 s" in said[2]


def test_a_run_with_an_unhealthy_step_has_no_tick() -> None:
    run = _run(f"unhealthy: {SAID}")
    assert headline(run).startswith("! p unhealthy in")
    assert as_json(run)["unhealthy"] is True
    assert headline(_run("version 3")).startswith("✓ p succeeded in")
    failed = dataclasses.replace(run, status="CompletedWithFailures")
    assert failed.shown_status == "CompletedWithFailures"
    assert dataclasses.replace(run, stopping=True).shown_status == "Stopping"


def test_a_training_passes_its_findings_on(runs: LocalRuns) -> None:
    found = json.dumps({"healthy": False, "findings": [FOUND]})
    program = f"""
        import pathlib
        folder = pathlib.Path("/opt/ml/output/data/health")
        folder.mkdir(parents=True)
        (folder / "health.json").write_text({found!r})
    """
    assert runs.start([runs.training("train", program)]).status == "Succeeded"
    [ended] = runs.of(StepFinished)
    assert ended.value == f"unhealthy: {SAID}"
    with Ledger(runs.home) as ledger:
        [row] = ledger.executions()
        assert (row.status, row.shown_status) == ("Succeeded", "Unhealthy")
        assert ledger.execution(row.id).unhealthy
        assert [one.id for one in search(ledger, where="status = unhealthy").rows] == [row.id]
        assert [one.id for one in search(ledger, where="status = succeeded").rows] == [row.id]
        assert not search(ledger, where="status = failed").rows
    assert "! unhealthy" in listed([row])
