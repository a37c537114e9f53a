"""A deployed run for a terminal; tests/golden/test_deployed_runs.py has more of it."""

from __future__ import annotations

import pytest

from drivetrain.cli.runs.deployed import shown
from drivetrain.deploying.runs import RemoteRun, RemoteStep, Report
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions import execution_report
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts, JobStep
from drivetrain.targets.sagemaker.prices.table import PriceTable


def run(id: str, *steps: RemoteStep) -> RemoteRun:
    return RemoteRun(
        id=id, pipeline="nightly", status="Succeeded", started=1000.0, ended=1300.0, version=4, steps=steps
    )


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
