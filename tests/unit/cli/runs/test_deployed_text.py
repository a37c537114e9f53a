"""Executions side by side: time and cost of each step, and what is not known is said to be so."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.cli.runs.deployed import compared, shown
from drivetrain.deploying.runs import RemoteRun, RemoteStep, Report, Row
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions import execution_report
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts, JobStep
from drivetrain.targets.sagemaker.prices.table import PriceTable


def run(id: str, *steps: RemoteStep) -> RemoteRun:
    return RemoteRun(
        id=id, pipeline="nightly", status="Succeeded", started=1000.0, ended=1300.0, version=4, steps=steps
    )


def report(id: str, *rows: Row, total: str | None = None) -> Report:
    return Report(execution=run(id), rows=rows, columns=("machines", "billed", "cost"), total=total)


def row(name: str, seconds: float, cost: str = "", **changes: Any) -> Row:
    given: dict[str, Any] = {"name": name, "title": name, "type": "Training", "status": "Succeeded", **changes}
    return Row(RemoteStep(started=1000.0, ended=1000.0 + seconds, **given), {}, ("1 x ml.g5.xlarge", "", cost))


def test_time_and_cost_stand_side_by_side() -> None:
    first = report("aaaa", row("train", 250.0, "$1.25"), row("evaluate", 20.0, "$0.05"), total="Cost: $1.30")
    other = report("bbbb", row("train", 100.0, "$0.50"), row("evaluate", 0.0, status="Cached"), row("new", 9.0))
    text = compared([first, other])
    lines = [line.split() for line in text.splitlines()]
    assert ["execution", "aaaa", "bbbb"] in lines and ["time", "5", "min", "00", "s", "5", "min", "00", "s"] in lines
    assert ["train", "4", "min", "10", "s,", "$1.25", "1", "min", "40", "s,", "$0.50"] in lines
    assert ["evaluate", "20.0", "s,", "$0.05", "cached"] in lines and ["new", "–", "9.00", "s"] in lines
    assert "aaaa: Cost: $1.30" in text and "bbbb: Cost: not known." in text


def test_a_training_that_a_health_rule_failed_has_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # the last column is cut to the terminal

    def trained(healthy: float) -> Report:
        job = JobFacts(kind="Processing", name="train", metrics={"healthy": healthy})
        step = JobStep(name="train", title="train", type="TrainingJob", status="Succeeded", attempts=1, job=job)
        return execution_report.report(Account("us-east-1"), run("aaaa", step), PriceTable(()))

    text = shown(trained(0.0), lambda *_: "")
    assert text.startswith("! nightly unhealthy in")
    assert "! train" in text and "a health rule failed its model" in text
    assert trained(0.0).to_json()["steps"][0]["unhealthy"] is True
    assert trained(0.0).to_json()["steps"][0]["status"] == "Succeeded"
    assert shown(trained(1.0), lambda *_: "").startswith("✓ nightly succeeded in")
