from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.runs.deployed import shown
from drivetrain.deploying.following import LogLine, copy_log, follow, read_log, step_with_log
from drivetrain.deploying.runs import RemoteRun
from drivetrain.run_store.events import (
    Event,
    ExecutionFinished,
    ExecutionStarted,
    MetricLogged,
    StepFinished,
    StepInterrupted,
    StepNoted,
    StepRestarted,
)
from drivetrain.targets.deployer import StartRequest, runs_command
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions import execution_report, executions
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts, JobStep
from drivetrain.targets.sagemaker.deploy.executions.execution_report import measured_seconds, report
from drivetrain.targets.sagemaker.deploy.executions.following import FollowedExecution
from drivetrain.targets.sagemaker.prices.table import PriceTable, Sheet
from drivetrain.targets.sagemaker.refusals import DeniedError, ServiceError
from tests.fixtures.sagemaker_service.playing import Playing
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place

NOW = datetime.now(UTC)


@pytest.fixture
def started(place: Place) -> tuple[Place, Playing]:
    place.apply(place.wanted())
    return place, Playing(place.outside.backend(), executions.start(place.account, NAME, StartRequest()))


def script(*acts: Callable[[], object]) -> Callable[[float], None]:
    """What happens while the service is not asked, an act a wait."""
    left = list(acts)

    def wait(seconds: float) -> None:
        assert seconds > 0 and left, "the execution ended, and it is still waited for"
        left.pop(0)()

    return wait


def transition(*names: str) -> list[dict[str, Any]]:
    return [{"Status": name, "StartTime": NOW} for name in names]


def about_runs(command: str, pipeline: str, *words: str) -> str:
    return runs_command(command, words, "sagemaker", pipeline, ("-c", "my settings.yaml"))


def test_an_execution_is_reported_like_a_local_run(started: tuple[Place, Playing]) -> None:
    place, playing = started
    told: list[Event] = []

    def first() -> None:
        playing.begin("prepare", "Processing")

    def second() -> None:
        playing.end("prepare", seconds=60)
        playing.begin("train", "Training", SecondaryStatus="Downloading", EnableManagedSpotTraining=True)

    def third() -> None:
        playing.change(
            "train",
            SecondaryStatus="Training",
            FinalMetricDataList=[{"MetricName": "loss", "Value": 0.5, "Timestamp": NOW}],
        )

    def fourth() -> None:
        playing.change(
            "train",
            SecondaryStatus="Interrupted",
            SecondaryStatusTransitions=transition("Training", "Interrupted"),
        )

    def fifth() -> None:
        playing.change("train", SecondaryStatus="Training")

    def last() -> None:
        playing.change("train", TrainingJobStatus="Completed", SecondaryStatus="Completed")
        playing.end("train", seconds=600)
        playing.conclude("Succeeded")

    ended = follow(
        FollowedExecution(place.account, playing.arn),
        told.append,
        wait=script(first, second, third, fourth, fifth, last),
        clock=lambda: 0.0,
    )
    assert ended.status == "Succeeded"
    steps = (("prepare", "Processing", "prepare"), ("train", "Training", "train"), ("stop", "Fail", "stop"))
    assert told[0] == ExecutionStarted(ended.id, NAME, (steps[0], ("train", "Processing", "train"), steps[2]))
    kinds = [(type(event).__name__, getattr(event, "step", None)) for event in told[1:-1]]
    assert kinds == [
        ("StepStarted", "prepare"),
        ("StepFinished", "prepare"),
        ("StepStarted", "train"),
        ("StepNoted", "train"),
        ("StepNoted", "train"),
        ("MetricLogged", "train"),
        ("StepInterrupted", "train"),
        ("StepRestarted", "train"),
        ("StepFinished", "train"),
        ("StepFinished", "stop"),
    ]
    assert told[2] == StepFinished("prepare", "Succeeded", 60.0)
    assert isinstance(told[4], StepNoted) and told[4].note == "downloading"
    assert isinstance(told[6], MetricLogged) and (told[6].name, told[6].value) == ("loss", 0.5)
    assert isinstance(told[7], StepInterrupted) and told[7].start == 2
    assert told[8] == StepRestarted("train", 1, 2)
    assert told[10] == StepFinished("stop", "NotExecuted", 0.0)
    assert isinstance(told[-1], ExecutionFinished) and told[-1].status == "Succeeded"


def test_steps_are_read_live_and_jobs_after_their_end(started: tuple[Place, Playing]) -> None:
    place, playing = started
    playing.begin("prepare", "Processing")
    followed = FollowedExecution(place.account, playing.arn)
    playing.end("prepare", "Failed", seconds=60)
    (first,) = followed.look(closely=True).steps
    playing.change("prepare", ProcessingJobStatus="Completed", ProcessingStartTime=NOW)
    playing.end("prepare", "Succeeded", seconds=60)
    (again,) = followed.look(closely=True).steps
    assert (first.status, again.status) == ("Failed", "Succeeded") and again.job is first.job


def prices() -> PriceTable:
    hourly = {"Training": {"ml.m5.xlarge": 3.6}, "Processing": {"ml.m5.xlarge": 7.2}}
    return PriceTable((Sheet("us-east-1", NOW.date(), "a test", hourly, {}),))


def test_a_report_says_what_was_billed_saved_and_paid(started: tuple[Place, Playing]) -> None:
    place, playing = started
    begin, end = datetime(2026, 1, 1, 0, 0, tzinfo=UTC), datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    playing.begin("prepare", "Processing", ProcessingStartTime=begin, ProcessingEndTime=end)
    playing.end("prepare", seconds=320)
    playing.begin(
        "train",
        "Training",
        EnableManagedSpotTraining=True,
        TrainingTimeInSeconds=1000,
        BillableTimeInSeconds=300,
        Environment={"DRIVETRAIN_FRESH": "0a1b"},
        SecondaryStatusTransitions=transition("Training", "Interrupted", "Training"),
        ResourceConfig={"InstanceType": "ml.m5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
    )
    playing.end("train", seconds=1100)
    playing.begin("stop")
    playing.end("stop", CacheHitResult={"SourcePipelineExecutionArn": playing.arn})
    playing.conclude("Succeeded")
    found = report(place.account, executions.describe(place.account, playing.arn), prices())
    prepare, train, stop = (row.step.job for row in found.rows)
    assert isinstance(prepare, JobFacts) and isinstance(train, JobFacts) and stop is None
    assert prepare.cost == pytest.approx(300 * 7.2 / 3600)
    assert train.cost == pytest.approx(2 * 300 * 3.6 / 3600)
    assert train.on_demand_cost == pytest.approx(2 * 1000 * 3.6 / 3600)
    assert train.saving == pytest.approx(0.7) and train.interruptions == 1
    assert found.more["cost"] == pytest.approx(0.6 + 0.6) and found.more["cost_is_complete"]
    assert found.more["saved_by_spot"] == pytest.approx(1.4)
    assert found.more["billable_seconds"] == 300 + 600
    assert measured_seconds(place.account, NAME) == {"prepare": 300, "train": 1000}
    executions.start(place.account, NAME, StartRequest())  # one that goes on does not count
    assert measured_seconds(place.account, NAME) == {"prepare": 300, "train": 1000}
    said = found.to_json()
    assert [row.remark for row in found.rows][:2] == ["", "--fresh, interrupted 1 times, spot saved 70.0 %"]
    assert said["steps"][1]["job"]["billable_seconds"] == 300 and said["saved_by_spot"] == pytest.approx(1.4)


def test_an_interruption_that_goes_on_is_counted(started: tuple[Place, Playing]) -> None:
    place, playing = started
    playing.begin("train", "Training", SecondaryStatus="Interrupted")
    (train,) = report(place.account, executions.describe(place.account, playing.arn), prices()).to_json()["steps"]
    assert json.dumps(train["job"]["interruptions"]) == "1"


def test_the_age_of_prices_is_that_of_the_oldest_one_used(started: tuple[Place, Playing]) -> None:
    place, playing = started
    hours = {"ProcessingStartTime": NOW, "ProcessingEndTime": NOW + timedelta(seconds=1)}
    playing.begin("prepare", "Processing", **hours)
    playing.end("prepare")
    playing.begin("train", "Training", TrainingTimeInSeconds=1, BillableTimeInSeconds=1)
    playing.end("train")
    playing.conclude("Succeeded")
    new, old = NOW.date(), NOW.date() - timedelta(days=900)
    table = PriceTable(
        (
            Sheet("us-east-1", new, "a test", {"Processing": {"ml.m5.xlarge": 1.0}}, {}),
            Sheet("us-east-1", old, "a test", {"Training": {"ml.m5.xlarge": 1.0}}, {}),
        )
    )
    found = report(place.account, executions.describe(place.account, playing.arn), table)
    assert found.more["cost"] is not None
    assert str(old) in found.more["prices"]
    assert "under $0.01" in shown(found, about_runs) and "$0.00" not in shown(found, about_runs)


def test_a_machine_without_a_price_leaves_the_cost_open(started: tuple[Place, Playing]) -> None:
    place, playing = started
    playing.begin("train", "Training", TrainingTimeInSeconds=10, BillableTimeInSeconds=10)
    playing.end("train")
    playing.conclude("Succeeded")
    found = report(place.account, executions.describe(place.account, playing.arn), replace(prices(), sheets=()))
    assert found.more["cost"] is None and not found.more["cost_is_complete"]


def put(place: Place, job: str, host: str, *texts: str, at: int = 0) -> None:
    client = place.outside.client("logs")
    stream = f"{job}/{host}-1700000000"
    if not client.describe_log_groups(logGroupNamePrefix="/aws/sagemaker/TrainingJobs")["logGroups"]:
        client.create_log_group(logGroupName="/aws/sagemaker/TrainingJobs")
    known = client.describe_log_streams(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=stream)
    if not known["logStreams"]:
        client.create_log_stream(logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=stream)
    now = int(NOW.timestamp() * 1000) + at
    events = [{"timestamp": now + n, "message": text} for n, text in enumerate(texts)]
    client.put_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=stream, logEvents=events)


def test_a_report_says_what_a_training_starts_from(
    started: tuple[Place, Playing], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, playing = started
    job = playing.begin("train", "Training")
    assert job is not None

    def remark() -> str:
        found = report(place.account, executions.describe(place.account, playing.arn), prices())
        (train,) = (row.remark for row in found.rows if row.step.name == "train")
        assert found.to_json()["steps"][-1]["starts_from"] == (train or None)
        return train

    assert remark() == ""
    put(place, job, "algo-1", "epoch 1/4", "2026-11-20 starts from: digits version 7 at step 12, the same data")
    put(place, job, "algo-2", "starts from: nothing that counts")
    assert remark() == "starts from digits version 7 at step 12, the same data"

    def denied(*_: object, **__: object) -> None:
        raise DeniedError("AWS denies logs:GetLogEvents.")

    monkeypatch.setattr(execution_report, "starting_point", denied)
    assert remark() == "its log may not be read"


def test_a_log_is_followed_until_the_step_ends(started: tuple[Place, Playing]) -> None:
    place, playing = started
    job = playing.begin("train", "Training")
    assert job is not None
    put(place, job, "algo-1", "one", "two")
    put(place, job + "-other", "algo-1", "not ours")
    lines: list[LogLine] = []

    def more() -> None:
        put(place, job, "algo-1", "three", at=100)
        put(place, job, "algo-2", "from the second host", at=50)

    def last() -> None:
        put(place, job, "algo-1", "four", at=200)
        playing.end("train")

    followed = FollowedExecution(place.account, playing.arn)
    read_log(followed, None, lines.append, follow=True, wait=script(more, last))
    assert [(line.host, line.text) for line in lines] == [
        ("algo-1", "one"),
        ("algo-1", "two"),
        ("algo-2", "from the second host"),
        ("algo-1", "three"),
        ("algo-1", "four"),
    ]
    again: list[LogLine] = []
    read_log(followed, "train", again.append, num_lines=2)
    assert [line.text for line in again] == ["three", "four"]


def test_a_step_without_a_log_says_why(started: tuple[Place, Playing]) -> None:
    place, playing = started
    followed = FollowedExecution(place.account, playing.arn)
    playing.begin("prepare", "Processing")
    playing.end("prepare", "Failed", FailureReason="no")
    playing.begin("train")
    playing.end("train", CacheHitResult={"SourcePipelineExecutionArn": playing.arn})
    playing.begin("stop")
    execution = followed.look()
    assert step_with_log(execution, None).name == "prepare"
    assert [step.may_log for step in execution.steps] == [False, False, True], "the service has not said what it is"
    with pytest.raises(UserError, match="it is taken from"):
        step_with_log(execution, "train")
    with pytest.raises(UserError, match="it starts no program"):
        step_with_log(execution, "stop")
    with pytest.raises(UserError, match="nothing was written"):
        read_log(followed, "prepare", print)
    playing.begin("more", "Processing")
    with pytest.raises(UserError, match="has no log yet; --follow waits for it"):
        read_log(followed, "more", print)


def test_a_failure_shows_its_full_reason_and_its_log(
    started: tuple[Place, Playing], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, playing = started
    reason = f"AlgorithmError: {'a long story ' * 20}the end"
    playing.begin("prepare", "Processing")
    playing.end("prepare", "Failed", FailureReason=reason)
    playing.conclude("Failed", "Step failure: One or multiple steps failed.")
    monkeypatch.setenv("COLUMNS", "60")
    found = report(place.account, executions.describe(place.account, playing.arn))
    lines = shown(found, about_runs).splitlines()
    assert f"prepare: {reason}" in lines
    command = f"drivetrain runs logs {found.execution.id} prepare --on sagemaker -p {NAME} -c 'my settings.yaml'"
    assert f"Its log: {command}" in lines


def test_uncounted_costs_are_reported(started: tuple[Place, Playing]) -> None:
    place, playing = started
    hours = {"ProcessingStartTime": NOW, "ProcessingEndTime": NOW + timedelta(hours=1)}
    playing.begin("prepare", "Processing", **hours)
    playing.end("prepare")

    def is_complete() -> bool:
        return report(place.account, executions.describe(place.account, playing.arn), prices()).more["cost_is_complete"]

    assert is_complete()
    playing.begin("gate")
    playing._step("gate")["Metadata"] = {"Condition": {"Outcome": "True"}}
    playing.end("gate")
    assert is_complete()
    playing._step("prepare")["AttemptCount"] = 3  # two jobs before this one
    assert not is_complete()
    playing._step("prepare")["AttemptCount"] = 1
    playing.begin("tune")
    job = "arn:aws:sagemaker:us-east-1:111122223333:hyper-parameter-tuning-job/search"
    playing._step("tune")["Metadata"] = {"TuningJob": {"Arn": job}}
    assert is_complete(), "it goes on"
    playing.end("tune")
    found = report(place.account, executions.describe(place.account, playing.arn), prices())
    assert not found.more["cost_is_complete"] and "at least" in shown(found, about_runs)


def test_a_check_is_billed_as_its_job(started: tuple[Place, Playing]) -> None:
    place, playing = started
    playing.begin("quality", "Processing", ProcessingStartTime=NOW, ProcessingEndTime=NOW + timedelta(hours=1))
    playing.end("quality")
    step = playing._step("quality")
    step["Metadata"] = {"QualityCheck": {"CheckType": "DATA", "CheckJobArn": step["Metadata"]["ProcessingJob"]["Arn"]}}
    found = report(place.account, executions.describe(place.account, playing.arn), prices())
    assert found.more["cost"] == pytest.approx(7.2) and found.more["cost_is_complete"]


def test_following_continues_through_an_outage(
    started: tuple[Place, Playing], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, playing = started
    playing.conclude("Succeeded")
    asked = Account._called
    lost = [2]

    def called(account: Account, service: str, operation: str, *given: Any) -> dict[str, Any]:
        if operation == "describe_pipeline_definition_for_execution" and lost[0]:
            lost[0] -= 1
            raise ServiceError("AWS cannot be reached.", may_be_done=True)
        return asked(account, service, operation, *given)

    monkeypatch.setattr(Account, "_called", called)
    waits: list[float] = []
    followed = FollowedExecution(place.account, playing.arn)
    assert follow(followed, lambda _: None, wait=waits.append).status == "Succeeded"
    assert waits == [5.0, 5.0]
    assert capsys.readouterr().err == "AWS cannot be reached. Following goes on, for up to 10 min 00 s.\n"
    lost[0] = 9
    monkeypatch.setattr("drivetrain.targets.sagemaker.account.FOLLOWING_SECONDS", -1.0)
    with pytest.raises(ServiceError, match="cannot be reached"):
        follow(followed, lambda _: None, wait=waits.append)


@pytest.mark.parametrize("stamp", [-1_000, 86_400_000], ids=["late stamp", "still in use"])
def test_a_lambda_step_shows_only_its_own_log(stamp: int) -> None:
    began = 1_000_000_000

    class Logged(Account):
        """Streams of a warm instance, whose time of the last event is late, as the service documents it."""

        def call(self, service: str, operation: str, *, about: str, **given: Any) -> dict[str, Any]:
            if operation == "describe_log_streams":
                return {
                    "logStreams": [{"logStreamName": "2026/11/01/[$LATEST]aa", "lastEventTimestamp": began + stamp}]
                }
            events = [
                {"timestamp": began + at, "message": text}
                for at, text in ((-5, "before"), (2_000, "of this step"), (86_400_000, "a day later"))
                if given["startTime"] <= began + at < given["endTime"]
            ]
            return {"events": [] if "nextToken" in given else events, "nextForwardToken": "end"}

    step = JobStep(
        name="notify",
        title="notify",
        status="Succeeded",
        type="Lambda",
        started=began / 1000,
        ended=began / 1000 + 5,
        arn="arn:x:function:notify",
    )
    lines: list[LogLine] = []
    run = RemoteRun(id="e", pipeline="p", status="Succeeded", started=0.0, steps=(step,))
    copy_log(FollowedExecution(Logged("us-east-1"), "arn:x/e"), run, step, lines.append)
    assert [line.text for line in lines] == ["of this step"]
