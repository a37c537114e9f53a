"""Changes of status in EventBridge's form, written with the changes themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.masking import Masking
from drivetrain.run_store import statuses
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.triggers.event_pattern import matches
from tests.fixtures.local_runs import LocalRuns

# The fields of the documented examples; an event may lack those that have no value.
ENVELOPE = {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
EXECUTION = {
    "pipelineExecutionDisplayName",
    "currentPipelineExecutionStatus",
    "previousPipelineExecutionStatus",
    "executionStartTime",
    "executionEndTime",
    "pipelineArn",
    "pipelineExecutionArn",
}
STEP = {
    "metadata",
    "stepStartTime",
    "stepEndTime",
    "stepName",
    "stepType",
    "previousStepStatus",
    "currentStepStatus",
    "cacheHitResult",
    "failureReason",
    "pipelineArn",
    "pipelineExecutionArn",
}


def told(runs: LocalRuns, execution: str) -> list[dict[str, Any]]:
    with Ledger(runs.home) as ledger:
        return [dict(row.event) for row in ledger.events(execution)]


def changes(events: list[dict[str, Any]]) -> list[tuple[str | None, str | None, str]]:
    return [
        (
            event["detail"].get("stepName"),
            event["detail"].get("previousStepStatus", event["detail"].get("previousPipelineExecutionStatus")),
            event["detail"].get("currentStepStatus", event["detail"].get("currentPipelineExecutionStatus")),
        )
        for event in events
    ]


def test_a_run_emits_events_of_itself_and_its_steps(runs: LocalRuns) -> None:
    conditions = [{"Type": "Equals", "LeftValue": 1, "RightValue": 2}]
    stop = {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no luck"}}
    gate = {
        "Name": "gate",
        "Type": "Condition",
        "Arguments": {"Conditions": conditions, "IfSteps": [], "ElseSteps": [stop]},
    }
    steps = [runs.processing("make", "pass", cache=True), {**gate, "DependsOn": ["make"]}]
    first = runs.start(steps, region="eu-west-1", account="123456789012")
    events = told(runs, first.execution)
    assert changes(events) == [
        (None, None, "Executing"),
        ("make", "Starting", "Executing"),
        ("make", "Executing", "Succeeded"),
        ("gate", "Starting", "Succeeded"),
        ("stop", "Starting", "Failed"),
        (None, "Executing", "Failed"),
    ]
    for event in events:
        assert set(event) == ENVELOPE
        assert set(event["detail"]) <= (STEP if "stepName" in event["detail"] else EXECUTION)
    pipeline = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/test"
    assert events[0]["resources"] == [pipeline, f"{pipeline}/execution/{first.execution}"]
    assert (events[0]["source"], events[0]["account"], events[0]["region"]) == (
        "aws.sagemaker",
        "123456789012",
        "eu-west-1",
    )
    assert len({event["id"] for event in events}) == len(events)
    job = f"arn:aws:sagemaker:eu-west-1:123456789012:processing-job/pipelines-{first.execution}-make"
    assert events[1]["detail"]["metadata"] == events[2]["detail"]["metadata"] == {"processingJob": {"arn": job}}
    assert events[3]["detail"]["metadata"] == {"condition": {"outcome": "False"}}
    assert events[4]["detail"]["metadata"] == {"fail": {"errorMessage": "no luck"}}
    assert events[4]["detail"]["failureReason"] == "no luck"
    assert events[0]["detail"]["executionStartTime"] == events[-1]["detail"]["executionStartTime"] > "2026"
    assert "executionEndTime" in events[-1]["detail"] and "executionEndTime" not in events[0]["detail"]

    second = runs.start(steps, region="eu-west-1", account="123456789012")
    [cached] = [event for event in told(runs, second.execution) if event["detail"].get("stepName") == "make"]
    source = {"sourcePipelineExecutionArn": f"{pipeline}/execution/{first.execution}"}
    assert (cached["detail"]["currentStepStatus"], cached["detail"]["cacheHitResult"]) == ("Succeeded", source)


def test_a_rule_on_another_pipelines_failure_matches_kept_events(runs: LocalRuns) -> None:
    failed = runs.start([runs.processing("make", "raise SystemExit(1)")])
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Model Building Pipeline Execution Status Change"],
        "detail": {
            "pipelineArn": ["arn:aws:sagemaker:us-east-1:000000000000:pipeline/test"],
            "currentPipelineExecutionStatus": ["Failed", "CompletedWithFailures"],
        },
    }
    assert [matches(pattern, event) for event in told(runs, failed.execution)] == [False, False, False, True]


def test_resuming_is_a_change_from_the_earlier_status(runs: LocalRuns) -> None:
    steps = [runs.processing("make", "raise SystemExit('too early')")]
    failed = runs.start(steps)
    runs.put("code/make/make.py", "pass")
    runs.resume()
    assert changes(told(runs, failed.execution)) == [
        (None, None, "Executing"),
        ("make", "Starting", "Executing"),
        ("make", "Executing", "Failed"),
        (None, "Executing", "Failed"),
        (None, "Failed", "Executing"),
        ("make", "Starting", "Executing"),
        ("make", "Executing", "Succeeded"),
        (None, "Executing", "Succeeded"),
    ]


def test_a_run_killed_while_stopping_resumes_from_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    with LedgerWriter(home) as ledger:
        ledger.facts = Facts("a", "p", "us-east-1", "000000000000", 0.0)
        steps = [(name, "Lambda", name) for name in ("done", "at-work", "waiting")]
        ledger.begin("a", "p", definition_hash="", request_hash="", parameters={}, steps=steps)
        ledger.settle_step("a", "done", "Succeeded")
        ledger.start_step("a", "at-work", arguments={})
        ledger.stop("a")
        ledger.reopen("a")
        ledger.start_step("a", "at-work", arguments={})
        ledger.finish_step("a", "at-work", "Succeeded")
        ledger.finish("a", "Succeeded", None)
        ledger.stop("a")
        assert changes([dict(row.event) for row in ledger.events("a")]) == [
            (None, None, "Executing"),
            ("done", "Starting", "Succeeded"),
            ("at-work", "Starting", "Executing"),
            (None, "Executing", "Stopping"),
            ("at-work", "Executing", "Stopping"),
            (None, "Stopping", "Executing"),
            ("at-work", "Starting", "Executing"),
            ("at-work", "Executing", "Succeeded"),
            (None, "Executing", "Succeeded"),
        ]


def test_events_hold_no_secret_and_need_a_ledger_with_identity(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    with LedgerWriter(home) as ledger:
        ledger.begin("a", "p", definition_hash="", request_hash="", parameters={}, steps=[("s", "Lambda", "s")])
        assert ledger.events("a") == []
        ledger.masking = Masking(["correct-horse"])
        ledger.facts = Facts("b", "p", "us-east-1", "000000000000", 0.0)
        ledger.begin("b", "p", definition_hash="", request_hash="", parameters={}, steps=[("s", "Lambda", "s")])
        ledger.settle_step("b", "s", "Failed", reason=ledger.masking.message("got correct-horse"))
        [event] = ledger.events("b", "s")
        assert event.event["detail"]["failureReason"] == "got ***"
        ledger.settle_step("b", "s", "NotExecuted", reason="not selected")
        assert len(ledger.events("b", "s")) == 1


def test_step_events_match_the_lists_of_the_service() -> None:
    service = pytest.importorskip("botocore.session").get_session().get_service_model("sagemaker")
    listed = service.shape_for("PipelineExecutionStepMetadata").members
    facts = Facts("e", "p", "us-east-1", "000000000000", 0.0)
    arns = {field: "arn:aws:x" for _, field in statuses._JOBS.values()}
    counts = {"Status": "Succeeded", "TotalStepCount": 2, "Selector": {"StepName": "a-1", "Index": 1}}
    answer = {**arns, **counts, "Outcome": "True", "CallbackToken": "t", "SqsQueueUrl": "https://sqs", "Other": 1}
    types = ["Condition", "Fail", *statuses._JOBS, *statuses._ANSWERS]
    assert len(types) == len(set(types)) > 15
    for kind in types:
        [(member, told)] = statuses.metadata(facts, "s", kind, answer, "why").items()
        shape = listed[member[:1].upper() + member[1:]]
        assert told and {name[:1].upper() + name[1:] for name in told} <= set(shape.members), kind


def test_waits_and_iterations_are_reported_with_their_outcomes(runs: LocalRuns) -> None:
    ask = {"Name": "Ask", "Type": "Lambda", "Arguments": {}, "FunctionArn": "arn:aws:lambda:us-east-1:1:function:f"}
    arguments = {"IterableItems": ["a", "b"], "MaxConcurrency": 1, "ForEachBody": [ask]}
    each = {"Name": "Each", "Type": "ForEach", "Arguments": arguments}
    summary = runs.start([each], stubs={"Ask": {}})
    ended = [event["detail"] for event in told(runs, summary.execution) if event["detail"].get("stepName") == "Each"]
    assert [one["metadata"] for one in ended] == [
        {},
        {
            "forEach": {
                **{"status": "Succeeded", "inputItemCount": 2, "totalStepCount": 2, "succeededStepCount": 2},
                **{"failedStepCount": 0, "stoppedStepCount": 0},
            }
        },
    ]
