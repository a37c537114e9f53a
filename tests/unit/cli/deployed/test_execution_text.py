"""Executions side by side: time and cost of each step, and what is not known is said to be so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drivetrain.cli.deployed.execution_text import compared, shown
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts
from drivetrain.targets.sagemaker.deploy.executions.execution_report import Report, StepReport
from drivetrain.targets.sagemaker.deploy.executions.executions import Execution, StepRun


def report(id: str, *steps: StepReport) -> Report:
    arn = f"arn:aws:sagemaker:us-east-1:111122223333:pipeline/nightly/execution/{id}"
    execution = Execution(arn, "nightly", "Succeeded", started=1000.0, modified=1300.0, version=4,
                          steps=tuple(step.step for step in steps))  # fmt: skip
    return Report(execution, steps, "USD", "prices of 2026-09-24, 63 days old")


def step(name: str, seconds: float, cost: float | None = None, **changes: Any) -> StepReport:
    run = StepRun(name, "Succeeded", "Training", title=name, started=1000.0, ended=1000.0 + seconds, **changes)
    return StepReport(run, JobFacts("Training", name, "Completed", "ml.g5.xlarge", 1, seconds, seconds), cost)


def test_time_and_cost_stand_side_by_side() -> None:
    first = report("aaaa", step("train", 250.0, 1.25), step("evaluate", 20.0, 0.05))
    other = report("bbbb", step("train", 100.0, 0.5), step("evaluate", 0.0, cached_from="aaaa"), step("new", 9.0))
    text = compared([first, other])
    lines = [line.split() for line in text.splitlines()]
    assert ["execution", "aaaa", "bbbb"] in lines and ["time", "5", "min", "00", "s", "5", "min", "00", "s"] in lines
    assert ["train", "4", "min", "10", "s,", "$1.25", "1", "min", "40", "s,", "$0.50"] in lines
    assert ["evaluate", "20.0", "s,", "$0.05", "cached"] in lines and ["new", "–", "9.00", "s"] in lines
    assert "aaaa: Cost of the machines: $1.30 (prices of 2026-09-24, 63 days old)" in text
    assert "bbbb: Cost of the machines: at least $0.50" in text


def test_a_cost_that_nobody_knows_is_said_to_be_unknown() -> None:
    text = compared([report("aaaa", step("train", 1.0)), report("bbbb", step("train", 2.0))])
    assert "aaaa: Cost: not known." in text and "$" not in text


def test_a_training_that_a_health_rule_failed_has_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # the last column is cut to the terminal

    def trained(healthy: float) -> Report:
        made = step("train", 250.0)
        assert made.job is not None
        return report("aaaa", replace(made, job=replace(made.job, metrics={"healthy": healthy})))

    text = shown(trained(0.0), lambda *_: "")
    assert text.startswith("! nightly unhealthy in")
    assert "! train" in text and "a health rule failed its model" in text
    assert trained(0.0).to_json()["steps"][0]["unhealthy"] is True
    assert trained(0.0).to_json()["steps"][0]["status"] == "Succeeded"
    assert shown(trained(1.0), lambda *_: "").startswith("✓ nightly succeeded in")
