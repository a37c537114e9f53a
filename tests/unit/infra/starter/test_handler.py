"""The starter Lambda against botocore's own model of the service (its Stubber), and against moto's service."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from drivetrain import DataDrift, Limit, Parameter, Pipeline, RegistryEvent
from drivetrain.decision.served_findings import DATA_DRIFT, Finding
from drivetrain.infra.starter import bundle
from drivetrain.infra.starter.handler import handle
from drivetrain.triggers.resources import Rule, TriggerSite, request, resources
from drivetrain.triggers.starting import Start, decide

EVENTS = Path(__file__).parents[3] / "fixtures" / "events"
ARN = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/retrain"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:drivetrain-events"
NOW = datetime(2026, 3, 4, 6, tzinfo=UTC)
# Parameters are declared: where the stand-in of other tests has mended moto in this process, it holds starts to that.
DEFINITION = json.dumps(
    {
        "Version": "2020-12-01",
        "Parameters": [{"Name": name, "Type": "String"} for name in ("Model", "Mode")],
        "Steps": [],
    }
)


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "MOTO_ACCOUNT_ID": "123456789012",
    }.items():
        monkeypatch.setenv(name, value)


def event(**detail: Any) -> dict[str, Any]:
    made = json.loads((EVENTS / "model_package.json").read_text())
    made["detail"].update(detail)
    return made


def pipeline(**fields: Any) -> Pipeline:
    trigger = RegistryEvent(
        name="approved",
        group="digits",
        **{"parameters": {"Model": "$.detail.ModelPackageArn", "Mode": "full"}, **fields},
    )
    return Pipeline(
        name="retrain",
        parameters=[Parameter.string("Model", "none"), Parameter.string("Mode", "quick")],
        triggers=[trigger],
        max_parallel_steps=4,
    )


def message(given: Any, made: Pipeline | None = None) -> str:
    made = made or pipeline()
    trigger = made.triggers[0]
    assert isinstance(trigger, RegistryEvent)
    return json.dumps({"trigger": request(made, trigger, ARN).to_json(), "event": given})


def batch(*bodies: str, queue: str = QUEUE) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m{place}", "receiptHandle": f"r{place}", "body": body, "eventSourceARN": queue}
            for place, body in enumerate(bodies)
        ]
    }


def outcomes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()]


def decided(given: dict[str, Any]) -> Start:
    trigger = pipeline().triggers[0]
    assert isinstance(trigger, RegistryEvent)
    found = decide(request(pipeline(), trigger, ARN), given, (), NOW)
    assert isinstance(found, Start)
    return found


class Stub:
    """A real client whose answers are given and whose requests are checked by botocore's model."""

    def __init__(self) -> None:
        import boto3
        from botocore.stub import Stubber

        self.client = boto3.client("sagemaker", region_name="eu-west-1")
        self.stubber = Stubber(self.client)
        self.queue = boto3.client("sqs", region_name="eu-west-1")
        self.queue_stubber = Stubber(self.queue)

    def delivers_at_once(self, handle: str, queue: str = "drivetrain-events") -> None:
        self.queue_stubber.add_response(
            "change_message_visibility",
            {},
            {
                "QueueUrl": f"https://sqs.eu-west-1.amazonaws.com/123456789012/{queue}",
                "ReceiptHandle": handle,
                "VisibilityTimeout": 0,
            },
        )

    def lists(self, *names: tuple[str, datetime], since: timedelta = timedelta(days=2), pages: int = 1) -> None:
        rows = [
            {
                "PipelineExecutionArn": f"{ARN}/execution/{place}",
                "PipelineExecutionDisplayName": name,
                "StartTime": time,
                "PipelineExecutionStatus": "Executing",
            }
            for place, (name, time) in enumerate(names)
        ]
        asked: dict[str, Any] = {"PipelineName": "retrain", "CreatedAfter": NOW - since, "SortOrder": "Descending"}
        for page in range(pages):
            last = page == pages - 1
            answer = {"PipelineExecutionSummaries": rows if last else [], **({} if last else {"NextToken": f"t{page}"})}
            self.stubber.add_response("list_pipeline_executions", answer, {**asked})
            asked["NextToken"] = f"t{page}"

    def starts(self, start: Start, times: int = 1) -> None:
        for _ in range(times):
            self.stubber.add_response(
                "start_pipeline_execution",
                {"PipelineExecutionArn": f"{ARN}/execution/abcdefghijkl"},
                {
                    "PipelineName": "retrain",
                    "PipelineExecutionDisplayName": start.display_name,
                    "PipelineExecutionDescription": "Started by trigger approved",
                    "PipelineParameters": [
                        {"Name": "Mode", "Value": "full"},
                        {"Name": "Model", "Value": "arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/7"},
                    ],
                    "ClientRequestToken": start.token,
                    "ParallelismConfiguration": {"MaxParallelExecutionSteps": 4},
                },
            )

    def handle(self, given: dict[str, Any]) -> list[str]:
        with self.stubber, self.queue_stubber:
            answer = handle(given, self.client, NOW, lambda: self.queue)
        self.stubber.assert_no_pending_responses()
        self.queue_stubber.assert_no_pending_responses()
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


@pytest.fixture
def stub() -> Stub:
    return Stub()


def test_an_event_starts_its_pipeline(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.lists(pages=2)
    stub.starts(decided(event()))
    assert stub.handle(batch(message(event()))) == []
    (line,) = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert (said["outcome"], said["trigger"], said["execution"]) == (
        "started",
        "approved",
        f"{ARN}/execution/abcdefghijkl",
    )


def test_a_started_event_is_not_started_again(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.lists((decided(event()).display_name, NOW - timedelta(minutes=1)))
    assert stub.handle(batch(message(event()))) == []
    assert outcomes(capsys) == ["skipped"]


def test_twice_in_one_batch_before_the_list_knows_of_it(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.lists()
    stub.starts(decided(event()))
    stub.lists()
    assert stub.handle(batch(message(event()), message(event()))) == []
    assert outcomes(capsys) == ["started", "skipped"]


def test_the_own_model_never_starts_it(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.lists()
    own = event(MetadataProperties={"GeneratedBy": f"{ARN}/execution/abc"})
    assert stub.handle(batch(message(own))) == []
    assert outcomes(capsys) == ["skipped"]


def test_the_rate_limit_looks_back_as_far_as_it_reaches(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    limited = pipeline(limit=Limit(starts=1, every="7 days"))
    stub.lists(("approved-0123456789ab", NOW - timedelta(days=6)), since=timedelta(days=7))
    assert stub.handle(batch(message(event(), limited))) == []
    assert outcomes(capsys) == ["skipped"]


def test_a_failure_fails_only_its_own_message(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    missing = pipeline(parameters={"Model": "$.detail.Nope"})
    stub.lists()
    stub.lists()
    stub.stubber.add_client_error("start_pipeline_execution", "ThrottlingException", "slow down")
    other = event(
        ModelPackageArn="arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/7", ModelPackageVersion=7
    )
    stub.lists()
    stub.starts(decided(other))
    # What no repetition mends does not hold up the others for as long as a throttled start.
    stub.delivers_at_once("r0")
    stub.delivers_at_once("r1")
    bodies = ["{", message(event(), missing), message(event()), message(other)]
    assert stub.handle(batch(*bodies)) == ["m0", "m1", "m2"]
    captured = capsys.readouterr()
    said = [json.loads(line) for line in captured.out.splitlines()]
    assert [one["outcome"] for one in said] == ["failed", "failed", "failed", "started"]
    assert "no JSON" in said[0]["reason"] and "has no 'Nope'" in said[1]["reason"] and "slow down" in said[2]["reason"]
    assert "Traceback" in captured.err


def test_in_a_fifo_queue_no_message_overtakes_a_failed_one(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.lists()
    stub.starts(decided(event()))
    stub.delivers_at_once("r1", "drivetrain-events.fifo")
    given = batch(message(event()), "{", message(event()), queue=f"{QUEUE}.fifo")
    assert stub.handle(given) == ["m1", "m2"]
    assert outcomes(capsys) == ["started", "failed"]


def test_permanent_refusals_are_not_retried(stub: Stub) -> None:
    stub.lists()
    stub.stubber.add_client_error("start_pipeline_execution", "ValidationException", "no such parameter")
    stub.delivers_at_once("r0")
    assert stub.handle(batch(message(event()))) == ["m0"]


def test_a_message_without_visibility_change_still_fails(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.queue_stubber.add_client_error("change_message_visibility", "AccessDenied", "not yours")
    assert stub.handle(batch("{")) == ["m0"]
    assert "not yours" in capsys.readouterr().err


def test_earlier_starts_are_found_on_any_page(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.lists((decided(event()).display_name, NOW - timedelta(minutes=1)), pages=3)
    assert stub.handle(batch(message(event()))) == []
    assert outcomes(capsys) == ["skipped"]


@pytest.fixture
def services() -> Iterator[Any]:
    from moto import mock_aws

    with mock_aws():
        import boto3

        yield lambda name: boto3.client(name, region_name="eu-west-1")


def deployed(services: Any, made: Pipeline) -> tuple[Callable[..., list[str]], str]:
    """Moto's event bus, queue and pipeline with the rule of a trigger: sends events, and gives the messages that come;
    and the pipeline's ARN."""
    sqs, events, sagemaker = services("sqs"), services("events"), services("sagemaker")
    url = sqs.create_queue(QueueName="drivetrain-events")["QueueUrl"]
    arn = sagemaker.create_pipeline(
        PipelineName="retrain",
        PipelineDefinition=DEFINITION,
        RoleArn="arn:aws:iam::123456789012:role/pipeline-role",
        ClientRequestToken="t" * 32,
    )["PipelineArn"]
    queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    (rule,) = resources(
        made, TriggerSite(region="eu-west-1", account=arn.split(":")[4], pipeline_arn=arn, event_queue=queue)
    )
    assert isinstance(rule, Rule)
    events.put_rule(**rule.rule)
    assert events.put_targets(Rule=rule.name, Targets=list(rule.targets))["FailedEntryCount"] == 0

    def send(*given: dict[str, Any]) -> list[str]:
        for one in given:
            entry = {"Source": one["source"], "DetailType": one["detail-type"], "Detail": json.dumps(one["detail"])}
            assert events.put_events(Entries=[entry])["FailedEntryCount"] == 0
        return [one["Body"] for one in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]]

    return send, arn


def test_from_the_bus_to_one_execution(services: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Through moto's event bus, queue and pipelines: delivered four times, begun once."""
    send, arn = deployed(services, pipeline())
    given, sagemaker = event(), services("sagemaker")
    own = event(MetadataProperties={"GeneratedBy": f"{arn}/execution/abc"})
    bodies = send(given, own, event(ModelApprovalStatus="Rejected"), given)
    assert len(bodies) == 2  # the rule's pattern kept the others back
    now = datetime.now(UTC)
    assert handle(batch(*bodies), sagemaker, now) == {"batchItemFailures": []}
    assert handle(batch(*bodies), sagemaker, now + timedelta(hours=1)) == {"batchItemFailures": []}
    assert outcomes(capsys) == ["started", "skipped", "skipped", "skipped"]
    (execution,) = sagemaker.list_pipeline_executions(PipelineName="retrain")["PipelineExecutionSummaries"]
    found = sagemaker.list_pipeline_parameters_for_execution(PipelineExecutionArn=execution["PipelineExecutionArn"])
    assert {one["Name"]: one["Value"] for one in found["PipelineParameters"]} == {
        "Mode": "full",
        "Model": "arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/7",
    }


def test_a_finding_in_served_data_starts_the_pipeline_each_time_that_it_is_told(
    services: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(at: float, *columns: str) -> dict[str, Any]:
        found = Finding(kind=DATA_DRIFT, group="digits", version=1, day="2026-11-30", told_at=at, columns=columns)
        return found.event(region="eu-west-1", account="123456789012")

    values = {"Mode": "$.detail.columns[0]", "Model": "the approved one"}
    trigger = DataDrift(name="drift", group="digits", columns=("age",), parameters=values)
    send, _ = deployed(services, pipeline().model_copy(update={"triggers": (trigger,)}))
    # Sent twice by a job that was repeated; another column alone; told again.
    bodies = send(told(1.0, "income", "age"), told(1.0, "income", "age"), told(2.0, "income"), told(3.0, "age"))
    sagemaker = services("sagemaker")
    assert handle(batch(*bodies), sagemaker, datetime.now(UTC)) == {"batchItemFailures": []}
    assert outcomes(capsys) == ["started", "skipped", "started"]
    assert len(sagemaker.list_pipeline_executions(PipelineName="retrain")["PipelineExecutionSummaries"]) == 2


def test_a_package_that_the_pipeline_registered_past_the_rule(
    services: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rule holds such events back; where one comes all the same, the Lambda does."""
    sagemaker = services("sagemaker")
    sagemaker.create_pipeline(
        PipelineName="retrain",
        PipelineDefinition=DEFINITION,
        RoleArn="arn:aws:iam::123456789012:role/pipeline-role",
        ClientRequestToken="t" * 32,
    )
    own = event(MetadataProperties={"GeneratedBy": f"{ARN.upper().replace('ARN:AWS', 'arn:aws')}/execution/abc"})
    handle(batch(message(own)), sagemaker, NOW)
    assert outcomes(capsys) == ["skipped"]
    assert sagemaker.list_pipeline_executions(PipelineName="retrain")["PipelineExecutionSummaries"] == []


def test_the_bundle_runs_alone(tmp_path: Path) -> None:
    """Nothing but the standard library and boto3 is there, and the handler is found by its name."""
    first, second = bundle.archive(), bundle.archive()
    assert first == second
    with zipfile.ZipFile(BytesIO(first)) as made:
        made.extractall(tmp_path)
    (tmp_path / "boto3.py").write_text(
        "class _Client:\n"
        "    def get_paginator(self, name):\n"
        "        return self\n"
        "    def paginate(self, **asked):\n"
        "        return [{'PipelineExecutionSummaries': []}]\n"
        "    def start_pipeline_execution(self, **asked):\n"
        "        return {'PipelineExecutionArn': 'arn:' + asked['ClientRequestToken']}\n"
        "def client(name):\n"
        "    assert name == 'sagemaker'\n"
        "    return _Client()\n"
    )
    module, name = bundle.HANDLER.split(".")
    script = (
        f"import sys, json; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"from {module} import {name}\n"
        f"print(json.dumps({name}(json.load(sys.stdin), None)))\n"
        "assert not {m for m in sys.modules if m.split('.')[0] in ('pydantic', 'yaml', 'click', 'rich', 'typer')}\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        input=json.dumps(batch(message(event()))),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    log, answer = ran.stdout.splitlines()
    assert json.loads(answer) == {"batchItemFailures": []}
    assert json.loads(log)["execution"] == f"arn:{decided(event()).token}"


def test_the_bundle_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "starter.zip"
    bundle.write_archive(path)
    assert path.read_bytes() == bundle.archive()
    with zipfile.ZipFile(path) as made:
        assert made.testzip() is None
        assert set(made.namelist()) == set(bundle.files())
