"""Deployed runs in words: lists, reports, logs and events of both targets, as they were reviewed; `make golden` writes
them anew."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.runs import deployed as execution_text
from drivetrain.spec.deployment import Deployment
from drivetrain.targets.deployer import Deployer, Handle
from drivetrain.targets.kubeflow.deploy.deployer import Kubeflow
from drivetrain.targets.kubeflow.deploy.executions.following import Output
from drivetrain.targets.kubeflow.deploy.rest import Api
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployer import SageMaker
from tests.unit.targets.kubeflow.deploy.test_recorded_runs import Server

Json = dict[str, Any]
GOLDEN = Path(__file__).parent / "deployed_runs"
KEPT = ("best", "chain-cached", "decide-no", "retry-notemplatedefaults", "stopped")
"""The recorded runs that together show every sentence."""
START = datetime.datetime(2026, 10, 1, 8, tzinfo=datetime.UTC)
ARN = "arn:aws:sagemaker:us-east-1:111122223333"
RUN = f"{ARN}:pipeline/nightly/execution/aaaa1111"


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def job_step(name: str, kind: str, began: float, ended: float | None = None, **more: Any) -> Json:
    said: Json = {"StepName": name, "StartTime": at(began), "AttemptCount": 1, "StepStatus": "Executing", **more}
    if ended is not None:
        said |= {"EndTime": at(ended), "StepStatus": more.get("StepStatus", "Succeeded")}
    if kind in ("Training", "Processing", "Transform"):
        said["Metadata"] = {f"{kind}Job": {"Arn": f"{ARN}:{kind.lower()}-job/job-{name}-{said['AttemptCount']}"}}
    return said


def training(phase: str, *transitions: str, **more: Any) -> Json:
    return {
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": phase,
        "SecondaryStatusTransitions": [{"Status": each} for each in transitions],
        "EnableManagedSpotTraining": True,
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2},
        "Environment": {"DRIVETRAIN_FRESH": "0a1b"},
        **more,
    }


PROCESSING: Json = {
    "ProcessingJobStatus": "Completed",
    "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}},
    "ProcessingStartTime": at(10),
    "ProcessingEndTime": at(70),
}
METRICS: Json = {"FinalMetricDataList": [{"MetricName": "loss", "Value": 0.5}, {"MetricName": "healthy", "Value": 0.0}]}
PREPARED = job_step("prepare", "Processing", 0, 75)
TAKEN = job_step("check", "", 1, 2, CacheHitResult={"SourcePipelineExecutionArn": RUN.replace("aaaa1111", "0000ffff")})
ITEM = {"IterationContext": {"Index": 0, "ParentStepName": "sweep"}, "StepDisplayName": "Fit"}
NOTIFY = {"Metadata": {"Lambda": {"Arn": "arn:aws:lambda:us-east-1:1:function:notify"}}}
GATE = job_step("gate", "", 400, 401, Metadata={"Condition": {"Outcome": "True"}}, StepDisplayName="Good enough?")
VERSION = job_step("register", "", 402, 405, Metadata={"RegisterModel": {"Arn": f"{ARN}:model-package/digits/7"}})
TRAINED: Json = {"TrainingTimeInSeconds": 300, "BillableTimeInSeconds": 120}
# What the service says one look after the other: status, steps, jobs.
SCENES: list[tuple[str, list[Json], Json]] = [
    ("Executing", [], {}),
    ("Executing", [job_step("prepare", "Processing", 0), TAKEN], {"prepare": PROCESSING}),
    ("Executing", [PREPARED, TAKEN, job_step("train", "Training", 80)], {"train": training("Downloading")}),
    ("Executing", [PREPARED, TAKEN, job_step("train", "Training", 80)], {"train": training("Training", **METRICS)}),
    (
        "Executing",
        [PREPARED, TAKEN, job_step("train", "Training", 80)],
        {"train": training("Interrupted", "Training", "Interrupted")},
    ),
    (
        "Executing",
        [PREPARED, TAKEN, job_step("train", "Training", 80)],
        {"train": training("Training", "Training", "Interrupted", "Training")},
    ),
    (
        "Executing",
        [PREPARED, TAKEN, job_step("train", "Training", 80, AttemptCount=2)],
        {"train": training("Starting")},
    ),
    (
        "Stopping",
        [
            PREPARED,
            TAKEN,
            job_step("train", "Training", 80, 390, AttemptCount=2),
            GATE,
            VERSION,
            job_step("fit-0", "Processing", 406, **ITEM),
            job_step("notify", "", 406, 409, **NOTIFY),
        ],
        {"train": training("Completed", "Interrupted", **METRICS, **TRAINED), "fit-0": PROCESSING},
    ),
    (
        "Failed",
        [
            PREPARED,
            TAKEN,
            job_step("train", "Training", 80, 390, AttemptCount=2),
            GATE,
            VERSION,
            job_step(
                "fit-0", "Processing", 406, 420, StepStatus="Failed", FailureReason="exit code 1: no rows", **ITEM
            ),
            job_step("notify", "", 406, 409, **NOTIFY),
            job_step("report", "Processing", 406, 421, StepStatus="Stopped", FailureReason="it was stopped"),
        ],
        {
            "train": training("Completed", "Interrupted", **METRICS, **TRAINED),
            "fit-0": PROCESSING,
            "report": PROCESSING,
        },
    ),
]
DEFINED = [
    {"Name": "prepare", "Type": "Processing", "Arguments": {}},
    {"Name": "check", "Type": "Processing", "Arguments": {}, "DisplayName": "Check the data"},
    {"Name": "train", "Type": "Training", "Arguments": {}},
    {"Name": "never", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}},
]
LISTED = [
    ("aaaa1111", "by-hand", "Executing", None),
    ("aabb2222", "", "Failed", "Step train failed."),
    ("ccdd3333", "twice", "Succeeded", None),
    ("ccdd4444", "twice", "Stopped", None),
]


class Told(Account):
    """An account in which one scene follows the other."""

    def __init__(self) -> None:
        super().__init__("us-east-1")
        self.scene = 0
        self.calls: list[str] = []

    def call(self, service: str, operation: str, *, about: str, **given: Any) -> Json:
        self.calls.append(operation)
        status, steps, jobs = SCENES[self.scene]
        if operation == "describe_pipeline_execution":
            return {
                "PipelineExecutionStatus": status,
                "CreationTime": START,
                "LastModifiedTime": at(430),
                "PipelineExecutionDisplayName": "by-hand",
                "PipelineVersionId": 3,
                **({"FailureReason": "Step failure: One or multiple steps failed."} if status == "Failed" else {}),
            }
        if operation == "list_pipeline_execution_steps":
            return {"PipelineExecutionSteps": steps}
        if operation == "describe_pipeline_definition_for_execution":
            definition = {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], "Steps": DEFINED}
            return {"PipelineDefinition": json.dumps(definition)}
        if operation == "list_pipeline_executions":
            return {"PipelineExecutionSummaries": [listed(*each) for each in LISTED][: given["MaxResults"]]}
        if operation.startswith("describe_") and operation.endswith("_job"):
            name = next(value for key, value in given.items() if key.endswith("JobName"))
            return jobs.get(re.sub(r"^job-|-\d$", "", name), PROCESSING)
        if operation == "describe_log_streams":
            prefix = given.get("logStreamNamePrefix", "aa")
            return {"logStreams": [] if "report" in prefix else [{"logStreamName": f"{prefix}algo-1-17"}]}
        assert operation == "get_log_events", operation
        lines = ["starts from: digits version 6 at step 12"] + ["epoch"] * self.scene
        begin = 0 if given.get("nextToken") is None else int(given["nextToken"])
        events = [{"timestamp": 1000 + place, "message": f"{text} {place}\n"} for place, text in enumerate(lines)]
        return {"events": events[begin:], "nextForwardToken": str(len(events))}


def listed(id: str, name: str, status: str, reason: str | None) -> Json:
    said: Json = {"PipelineExecutionArn": RUN.replace("aaaa1111", id), "PipelineExecutionStatus": status}
    return {**said, "PipelineExecutionDisplayName": name, "StartTime": START, "PipelineExecutionFailureReason": reason}


class Recorded(Server):
    """A recorded run at some of its moments, one after the other; at the last it is as it was recorded."""

    namespace, endpoint = "team-a", "http://kubeflow"

    def __init__(self, run: str) -> None:
        super().__init__(run)
        nodes: list[Json] = list(self.manifest["status"].get("nodes", {}).values())
        moments = sorted({each[key] for each in nodes for key in ("startedAt", "finishedAt") if each.get(key)})
        self.moments = [*moments[:: max(len(moments) // 6, 1)], ""]
        self.scene = 0
        self.whole, self.answered = self.manifest, self.answer

    def call(self, method: str, path: str, *, shape: Any = "object", **more: Any) -> Json:
        if "/experiments" in path:
            return {"experiments": [{"experiment_id": "e", "display_name": "p"}]}
        if path.endswith("/pipelines/names/p"):
            return {"pipeline_id": "p", "display_name": "p"}
        if path.endswith("/versions"):
            return {"pipeline_versions": [{"pipeline_version_id": "v", "pipeline_id": "p", "display_name": "1-aa"}]}
        if path.endswith("/runs"):
            return {"runs": [{**self.answered, "pipeline_version_reference": {"pipeline_id": "p"}}]}
        moment = self.moments[self.scene]
        self.manifest, self.answer = (self.whole, self.answered) if not moment else self._before(moment)
        return super().call(method, path, shape=shape, **more)

    def followed(self) -> Any:
        return nullcontext()

    def text(self, path: str, *, about: str) -> str:
        return f"log of {path.split('/')[-2]}\n" + "more\n" * self.scene

    def _before(self, moment: str) -> tuple[Json, Json]:
        nodes: Json = {}
        for id, node in self.whole["status"].get("nodes", {}).items():
            if str(node.get("startedAt") or "") > moment:
                continue
            if str(node.get("finishedAt") or "") > moment:
                node = {key: value for key, value in node.items() if key not in ("finishedAt", "message")}
                waits = node["type"] == "Pod" and node["startedAt"] == moment
                node |= {"phase": "Pending", "message": "no room"} if waits else {"phase": "Running"}
            nodes[id] = node
        answer = {key: value for key, value in self.answered.items() if key not in ("finished_at", "error")}
        history = [each for each in answer.get("state_history", ()) if str(each.get("update_time")) <= moment]
        state = "CANCELING" if any(each.get("state") == "CANCELING" for each in history) else "RUNNING"
        manifest = {**self.whole, "status": {**self.whole["status"], "nodes": nodes}}
        return manifest, {**answer, "state": state, "state_history": history}


def sagemaker() -> tuple[Deployer, Any, Handle]:
    deployer = SageMaker("us-east-1", None)
    account = Told()
    setattr(deployer, "account", account)  # noqa: B010
    return deployer, account, Handle("aaaa1111", RUN, "arn", "nightly")


def kubeflow(run: str) -> tuple[Deployer, Any, Handle]:
    place = {"endpoint": "http://kubeflow", "namespace": "team-a", "root": "s3://bucket/pipelines", "experiment": "p"}
    deployer = Kubeflow(Deployment.model_validate({"targets": {"kubeflow": place}}), "p")
    server = Recorded(run)
    deployer.api = cast(Api, server)
    output = Output(cast(Api, server), None)
    output.problem = UserError("no storage here")
    setattr(deployer, "_output", output)  # noqa: B010
    return deployer, server, Handle("r", "http://kubeflow/#/runs/details/r", "url", "p")


class NothingMoreError(UserError):
    """The run went on when it was recorded."""


def said_of(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except UserError as error:
        return f"UserError: {error}"


def told(made: Callable[[], tuple[Deployer, Any, Handle]], capsys: pytest.CaptureFixture[str]) -> Json:
    """All that is said of a run: at each moment, and by whoever follows it."""
    deployer, server, handle = made()
    last = len(SCENES) - 1 if isinstance(server, Told) else len(server.moments) - 1
    moments: list[Json] = []
    reports = [deployer.report(handle)]
    for server.scene in range(last + 1):
        report = deployer.report(handle)
        reports.append(report)
        shown = execution_text.shown(report, deployer.about_runs).splitlines()
        names = [step.name for step, *_ in report.rows] if server.scene == last else []
        lines = {str(name): said_of(lambda name=name: log(deployer, handle, name)) for name in (None, *names, "trian")}
        moments.append({"shown": shown, "logs": lines, **({"json": report.to_json()} if server.scene == last else {})})
    compared = execution_text.compared([reports[len(reports) // 2], reports[-1]]).splitlines()
    names = ["latest", "", " ", "aabb", "aa", "ccdd", "twice", "by-hand", "twicf", "arn:x", RUN, RUN.replace("ly", "x")]
    found = {name: said_of(lambda name=name: asdict(deployer.find(handle.pipeline, name))) for name in names}
    executions = deployer.executions(handle.pipeline, 3)
    listed = {"json": [each.summary() for each in executions], "shown": execution_text.listed(executions).splitlines()}
    events: list[str] = []
    deployer, server, handle = made()
    with passing(server, last):
        said_of(lambda: deployer.follow(handle, lambda event: events.append(repr(event))))
    followed: Json = {}
    capsys.readouterr()
    for name in (None, *(step.name for step, *_ in reports[-1].rows), "never", "trian"):
        deployer, server, handle = made()
        with passing(server, last):
            lines = said_of(lambda: log(deployer, handle, name, follow=True, num_lines=2))  # noqa: B023
        followed[str(name)] = {"lines": lines, "stderr": capsys.readouterr().err.splitlines()}
    return {
        "moments": moments,
        "compared": compared,
        "found": found,
        "listed": listed,
        "events": events,
        "followed logs": followed,
    }


def log(deployer: Deployer, handle: Handle, step: str | None, **options: Any) -> list[str]:
    lines: list[str] = []
    deployer.read_log(handle, step, lambda line: lines.append(f"{line.host}: {line.text}"), **options)
    return lines


def passing(server: Any, last: int) -> Any:
    """Let the next scene begin whenever somebody waits."""

    def wait(seconds: float) -> None:
        assert seconds > 0
        if server.scene == last:
            assert isinstance(server, Recorded) and server.answered["state"] == "RUNNING", "it has ended"
            raise NothingMoreError("nothing more was recorded")
        server.scene += 1

    patched = pytest.MonkeyPatch()
    patched.setattr("time.sleep", wait)

    class Context:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None:
            patched.undo()

    return Context()


def written(value: Json) -> str:
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
    return re.sub(r"elapsed_s=[\d.]+", "elapsed_s=...", re.sub(r"\d+ days? old|today's", "N days old", text))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TZ", "UTC")


def test_sagemaker(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    held(request, "sagemaker", told(sagemaker, capsys))


@pytest.mark.parametrize("run", KEPT)
def test_kubeflow(run: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    held(request, f"kubeflow-{run}", told(lambda: kubeflow(run), capsys))


def held(request: pytest.FixtureRequest, name: str, value: Json) -> None:
    golden = GOLDEN / f"{name}.json"
    if request.config.getoption("--write-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(written(value))
    assert written(value) == golden.read_text()
