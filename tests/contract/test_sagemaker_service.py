"""The server that stands for AWS refuses what the services refuse: what a stand-in takes anyway proves nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fixtures.sagemaker_service.definitions import text_problems
from tests.fixtures.sagemaker_service.expressions import is_at, is_cron, is_rate
from tests.fixtures.sagemaker_service.playing import Playing
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

JOB: dict[str, Any] = {
    "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}},
    "AppSpecification": {"ImageUri": "image"},
    "RoleArn": {"Get": "Parameters.Role"},
}
GOOD: dict[str, Any] = {
    "Version": "2020-12-01",
    "Parameters": [
        {"Name": "Role", "Type": "String", "DefaultValue": "arn:aws:iam::000000000000:role/jobs"},
        {"Name": "Rows", "Type": "Integer", "DefaultValue": 3},
        {"Name": "Least", "Type": "Float", "DefaultValue": 1},
        {"Name": "Fast", "Type": "Boolean", "DefaultValue": True},
        {"Name": "Size", "Type": "String", "DefaultValue": "s", "EnumValues": ["s", "m"]},
    ],
    "Steps": [
        {
            "Name": "prepare",
            "Type": "Processing",
            "Arguments": JOB,
            "CacheConfig": {"Enabled": True, "ExpireAfter": "P30D"},
            "RetryPolicies": [{"ExceptionType": ["Step.THROTTLING"], "MaxAttempts": 3}],
            "FieldOfTomorrow": 1.0,
        },
        {
            "Name": "gate",
            "Type": "Condition",
            "Arguments": {
                "Conditions": [{"Type": "Equals", "LeftValue": {"Get": "Parameters.Rows"}, "RightValue": 3}],
                "IfSteps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}],
                "ElseSteps": [],
            },
            "DependsOn": ["prepare"],
        },
        {
            "Name": "each",
            "Type": "ForEach",
            "Arguments": {
                "IterableItems": [1, 2],
                "ForEachBody": [{"Name": "child", "Type": "Processing", "Arguments": JOB}],
            },
        },
    ],
}


def with_(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    made = copy.deepcopy(GOOD)
    change(made)
    return made


def step_with(**more: Any) -> dict[str, Any]:
    return with_(lambda read: read["Steps"][0].update(more))


def parameter(**said: Any) -> dict[str, Any]:
    return with_(lambda read: read["Parameters"].append({"Name": "More", **said}))


# What is said of it -> a definition; what follows # tells those apart of which the same is said.
BAD = {
    "Version is '2' # bad version": with_(lambda read: read.update(Version="2")),
    "Steps is missing": with_(lambda read: read.pop("Steps")),
    "step names must be unique: prepare": with_(lambda read: read["Steps"].append(read["Steps"][0])),
    "step names must be unique: stop # in a branch": with_(
        lambda read: read["Steps"].append(read["Steps"][1]["Arguments"]["IfSteps"][0])
    ),
    "step prepare: Type is None": with_(lambda read: read["Steps"][0].pop("Type")),
    "step prepare: Type is 'Procesing'": step_with(Type="Procesing"),
    "step None: Name must be": with_(lambda read: read["Steps"][2].pop("Name")),
    "step pre pare: Name must be": step_with(Name="pre pare"),
    "steps wait for each other: gate, prepare, stop": step_with(DependsOn=["gate"]),
    "steps wait for each other: gate, prepare, stop # by a value": step_with(
        Description={"Get": "Steps.stop.Outcome"}, DependsOn=[]
    ),
    "steps wait for each other: gate, prepare, stop # one for itself": step_with(DependsOn=["prepare"]),
    "DependsOn names nobody": step_with(DependsOn=["nobody"]),
    "DependsOn names nobody # with a trigger": step_with(DependsOn=[{"Step": "nobody", "Trigger": "Any"}]),
    "parameter Rolle is not declared": step_with(Arguments={**JOB, "RoleArn": {"Get": "Parameters.Rolle"}}),
    "reads of step x": step_with(Arguments={**JOB, "RoleArn": {"Get": "Steps.x.RoleArn"}}),
    "step prepare starts no job that Execution.TrainingJobName names": step_with(
        Arguments={**JOB, "RoleArn": {"Get": "Execution.TrainingJobName"}}
    ),
    "an execution has no Name": step_with(Arguments={**JOB, "RoleArn": {"Get": "Execution.Name"}}),
    "'Role' can't be read": step_with(Arguments={**JOB, "RoleArn": {"Get": "Role"}}),
    "CreateProcessingJob.Foo does not exist": step_with(Arguments={**JOB, "Foo": 1}),
    "CreateProcessingJob.ProcessingResources is missing": step_with(Arguments={"Foo": 1}),
    "InstanceType is 'ml.m5.8xlarge'": with_(
        lambda read: read["Steps"][0]["Arguments"]["ProcessingResources"]["ClusterConfig"].update(
            InstanceType="ml.m5.8xlarge"
        )
    ),
    "InstanceCount is '1', not of type integer": with_(
        lambda read: read["Steps"][0]["Arguments"]["ProcessingResources"]["ClusterConfig"].update(InstanceCount="1")
    ),
    "CreateProcessingJob.Foo does not exist # in a loop": with_(
        lambda read: read["Steps"][2]["Arguments"]["ForEachBody"][0]["Arguments"].update(Foo=1)
    ),
    "ForEachBody is missing": with_(lambda read: read["Steps"][2]["Arguments"].pop("ForEachBody")),
    "a step of type Fail in a ForEach": with_(
        lambda read: read["Steps"][2]["Arguments"]["ForEachBody"].append(
            {"Name": "no", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}
        )
    ),
    "MaxConcurrency is 51": with_(lambda read: read["Steps"][2]["Arguments"].update(MaxConcurrency=51)),
    "a condition of type 'Equal'": with_(
        lambda read: read["Steps"][1]["Arguments"]["Conditions"][0].update(Type="Equal")
    ),
    "RightValue of the condition Equals is missing": with_(
        lambda read: read["Steps"][1]["Arguments"]["Conditions"][0].pop("RightValue")
    ),
    "ErrorMessage is missing": with_(
        lambda read: read["Steps"][1]["Arguments"]["IfSteps"][0].update(Arguments={"Message": "no"})
    ),
    "CacheConfig.Enabled must be": step_with(CacheConfig={"Enabled": "yes"}),
    "CacheConfig.ExpireAfter is 'a month'": step_with(CacheConfig={"Enabled": True, "ExpireAfter": "a month"}),
    "a retry policy of at most 20": step_with(
        RetryPolicies=[{"ExceptionType": ["Step.THROTTLING"], "MaxAttempts": 21}]
    ),
    "DisplayName must be text of at most 256": step_with(DisplayName="x" * 257),
    "parameter More: Type is 'Int'": parameter(Type="Int"),
    "the default 'x' is not of type Integer": parameter(Type="Integer", DefaultValue="x"),
    "the default True is not of type Integer": parameter(Type="Integer", DefaultValue=True),
    "the default 1.5 is not of type Integer": parameter(Type="Integer", DefaultValue=1.5),
    "the default None is not of type String": parameter(Type="String", DefaultValue=None),
    "the default 'l' is none of": parameter(Type="String", DefaultValue="l", EnumValues=["s", "m"]),
    "parameter names must be unique: Rows": with_(lambda read: read["Parameters"].append(read["Parameters"][1])),
}


def test_a_valid_definition_is_accepted() -> None:
    assert text_problems(json.dumps(GOOD)) == []


@pytest.mark.parametrize("said", BAD)
def test_a_definition_that_is_wrong_is_refused(said: str) -> None:
    problems = text_problems(json.dumps(BAD[said]))
    assert any(said.partition(" #")[0] in problem for problem in problems), problems


def test_numbers_that_json_cannot_hold_are_refused() -> None:
    assert text_problems('{"Steps": [], "New": NaN}') == ["NaN is not JSON"]


@pytest.mark.parametrize("said", ["rate(1 day)", "rate(5 minutes)", "rate(12 hours)"])
def test_a_rate_is_read(said: str) -> None:
    assert is_rate(said, strict=True)


@pytest.mark.parametrize("said", ["rate(0 days)", "rate(1 week)", "rate(1.5 hours)", "rate(-1 day)", "every tuesday"])
def test_an_invalid_rate_is_refused(said: str) -> None:
    assert not is_rate(said)


def test_a_rule_wants_the_right_number_of_the_unit() -> None:
    assert is_rate("rate(1 days)") and not is_rate("rate(1 days)", strict=True)
    assert not is_rate("rate(2 day)", strict=True)


@pytest.mark.parametrize(
    "said",
    [
        *("cron(0 2 * * ? *)", "cron(0/15 8-17 ? * MON-FRI *)", "cron(0 0 L * ? 2030)", "cron(0 0 15W JAN,JUL ? *)"),
        *("cron(30 6 ? * 6L 2026-2028)", "cron(0 0 ? * TUE#2 *)"),
    ],
)
def test_a_cron_is_read(said: str) -> None:
    assert is_cron(said)


@pytest.mark.parametrize(
    "said",
    [
        *("cron(0 2 * * *)", "cron(0 2 * * * *)", "cron(0 2 ? * ? *)", "cron(60 2 * * ? *)", "cron(0 24 * * ? *)"),
        *("cron(0 0 32 * ? *)", "cron(0 0 ? * 8 *)", "cron(0 0 ? * TUES *)", "cron(0/0 0 * * ? *)", "0 2 * * ? *"),
        *("cron(0 0 1 13 ? *)", "cron(0 0 1 1 ? 1969)", "cron(1-2-3 0 * * ? *)"),
    ],
)
def test_an_invalid_cron_is_refused(said: str) -> None:
    assert not is_cron(said)


def test_a_time_is_read() -> None:
    assert is_at("at(2030-01-31T04:05:06)") and not is_at("at(2030-02-31T04:05:06)") and not is_at("at(2030-01-31)")


@pytest.fixture(scope="module")
def account() -> Generator[TestAccount]:
    with sagemaker_service().account() as account:
        yield account


class Pipelines:
    def __init__(self, account: TestAccount) -> None:
        self.client = account.client("sagemaker")
        self.role = f"arn:aws:iam::{account.number}:role/pipelines"

    def create(self, name: str, **more: Any) -> str:
        given = {
            "PipelineDefinition": json.dumps(GOOD),
            "RoleArn": self.role,
            "ClientRequestToken": name.ljust(32, "x"),
        }
        return self.client.create_pipeline(PipelineName=name, **{**given, **more})["PipelineArn"]


@pytest.fixture(scope="module")
def pipelines(account: TestAccount) -> Pipelines:
    made = Pipelines(account)
    made.create("good")
    made.create("other")
    return made


def refused(call: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return str(error.value)


def test_a_wrong_definition_reaches_no_pipeline(account: TestAccount, pipelines: Pipelines) -> None:
    wrong = json.dumps(BAD["DependsOn names nobody"])
    assert "DependsOn names nobody" in refused(pipelines.create, name="wrong", PipelineDefinition=wrong)
    update, read = pipelines.client.update_pipeline, pipelines.client.describe_pipeline
    assert "DependsOn names nobody" in refused(update, PipelineName="good", PipelineDefinition=wrong)
    assert json.loads(read(PipelineName="good")["PipelineDefinition"]) == GOOD
    # Also where it lies in S3.
    bucket = account.make_bucket()
    account.client("s3").put_object(Bucket=bucket, Key="wrong.json", Body=wrong.encode())
    place = {"Bucket": bucket, "ObjectKey": "wrong.json"}
    assert "DependsOn" in refused(update, PipelineName="good", PipelineDefinitionS3Location=place)
    place["ObjectKey"] = "nothing.json"
    assert "Unable to read" in refused(update, PipelineName="good", PipelineDefinitionS3Location=place)
    assert "wrong" not in [found["PipelineName"] for found in pipelines.client.list_pipelines()["PipelineSummaries"]]


def test_a_token_creates_once(pipelines: Pipelines) -> None:
    first = pipelines.create("once", PipelineDescription="a")
    assert pipelines.create("once", PipelineDescription="a") == first
    assert len(pipelines.client.list_pipeline_versions(PipelineName="once")["PipelineVersionSummaries"]) == 1
    assert "other arguments" in refused(pipelines.create, name="once", PipelineDescription="b")
    assert "already exists" in refused(pipelines.create, name="once", ClientRequestToken="z" * 32)


def test_names_roles_and_tags_are_validated(pipelines: Pipelines) -> None:
    create = pipelines.create
    assert "PipelineName" in refused(create, name="two words")
    assert "RoleArn" in refused(create, name="role", RoleArn="arn:aws:iam::1:role/short")
    assert "Could not assume" in refused(create, name="role", RoleArn=f"{pipelines.role}-unassumable")
    tag = {"Key": "a", "Value": "b"}
    assert "Duplicate" in refused(create, name="tags", Tags=[tag, tag])
    assert "aws:" in refused(create, name="tags", Tags=[{"Key": "aws:x", "Value": "b"}])
    assert "outside 0 to 50" in refused(create, name="tags", Tags=[{"Key": f"k{n}", "Value": "v"} for n in range(51)])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Rows", "three", "'three' is not of type Integer"),
        ("Rows", "1.5", "'1.5' is not of type Integer"),
        ("Rows", "٣", "is not of type Integer"),
        ("Least", "nan", "'nan' is not of type Float"),
        ("Fast", "yes", "'yes' is not of type Boolean"),
        ("Size", "l", "'l' is none of"),
        ("Nobody", "1", "[Nobody] is not allowed"),
    ],
)
def test_a_parameter_of_another_type_starts_nothing(pipelines: Pipelines, name: str, value: str, said: str) -> None:
    start = pipelines.client.start_pipeline_execution
    given = [{"Name": name, "Value": value}]
    assert said in refused(start, PipelineName="good", PipelineParameters=given, ClientRequestToken="a" * 32)


def test_an_execution_takes_from_one_of_its_own_pipeline_that_has_ended(
    account: TestAccount, pipelines: Pipelines
) -> None:
    start = pipelines.client.start_pipeline_execution
    theirs = start(PipelineName="other", ClientRequestToken="o" * 32)["PipelineExecutionArn"]
    ours = start(PipelineName="good", ClientRequestToken="g" * 32)["PipelineExecutionArn"]
    assert start(PipelineName="good", ClientRequestToken="g" * 32)["PipelineExecutionArn"] == ours
    Playing(account.backend(), theirs).conclude()
    chosen: dict[str, Any] = {"SelectedSteps": [{"StepName": "gate"}], "SourcePipelineExecutionArn": theirs}
    given: dict[str, Any] = {"PipelineName": "good", "SelectiveExecutionConfig": chosen}
    assert "is not of pipeline good" in refused(start, ClientRequestToken="1" * 32, **given)
    chosen["SourcePipelineExecutionArn"] = ours
    assert "has not ended" in refused(start, ClientRequestToken="2" * 32, **given)
    Playing(account.backend(), ours).conclude()
    chosen["SelectedSteps"] = [{"StepName": "gaet"}]
    assert "gaet does not exist" in refused(start, ClientRequestToken="3" * 32, **given)
    chosen["SelectedSteps"] = [{"StepName": "gate"}]
    assert start(ClientRequestToken="4" * 32, **given)["PipelineExecutionArn"] not in (ours, theirs)


def schedule(account: TestAccount, **more: Any) -> dict[str, Any]:
    target = {
        "Arn": f"arn:aws:sagemaker:us-east-1:{account.number}:pipeline/good",
        "RoleArn": f"arn:aws:iam::{account.number}:role/scheduler",
    }
    return {
        "Name": "good-nightly",
        "ScheduleExpression": "rate(1 day)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {**target, **more.pop("target", {})},
        **more,
    }


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BAD_SCHEDULES = {
    "Invalid Schedule Expression every tuesday": {"ScheduleExpression": "every tuesday"},
    "Invalid Schedule Expression Timezone Mars/Base": {"ScheduleExpressionTimezone": "Mars/Base"},
    "MaximumWindowInMinutes goes with": {"FlexibleTimeWindow": {"Mode": "FLEXIBLE"}},
    "cannot be earlier than 5 minutes ago": {"StartDate": LONG_AGO},
    "EndDate you specify": {"EndDate": LONG_AGO},
    "EndDate you specify # before the start": {
        "StartDate": datetime.now(UTC) + timedelta(days=2),
        "EndDate": datetime.now(UTC) + timedelta(days=1),
    },
    "group nobody": {"GroupName": "nobody"},
    "Target.RoleArn": {"target": {"RoleArn": "arn:aws:iam::1:role/x"}},
    "must allow AWS EventBridge Scheduler": {"target": {"RoleArn": "arn:aws:iam::123456789012:role/unassumable"}},
    "not in correct format": {"target": {"Arn": "good"}},
    "go with a pipeline": {
        "target": {
            "Arn": "arn:aws:sqs:us-east-1:123456789012:queue",
            "SageMakerPipelineParameters": {"PipelineParameterList": [{"Name": "A", "Value": "1"}]},
        }
    },
    "DeadLetterConfig.Arn": {"target": {"DeadLetterConfig": {"Arn": "arn:aws:sqs:us-east-1:123456789012:dead.fifo"}}},
    "MaximumRetryAttempts has 186": {"target": {"RetryPolicy": {"MaximumRetryAttempts": 186}}},
    "CreateSchedule.Name has 65": {"Name": "n" * 65},
    "State is 'PAUSED'": {"State": "PAUSED"},
}


def test_schedules_are_validated(account: TestAccount) -> None:
    client = account.client("scheduler")
    for said, more in BAD_SCHEDULES.items():
        assert said.partition(" #")[0] in refused(client.create_schedule, **schedule(account, **dict(more)))
    assert client.list_schedules()["Schedules"] == []
    client.create_schedule(**schedule(account))
    assert "ConflictException" in refused(client.create_schedule, **schedule(account))
    for said, more in BAD_SCHEDULES.items():
        if "Name" not in more:
            assert said.partition(" #")[0] in refused(client.update_schedule, **schedule(account, **dict(more)))
    (listed,) = client.list_schedules()["Schedules"]
    assert set(listed) == {"Arn", "Name", "GroupName", "State", "CreationDate", "LastModificationDate", "Target"}
    assert "ResourceNotFound" in refused(client.delete_schedule, Name="nobody")
    client.delete_schedule(Name="good-nightly")


@pytest.mark.slow
def test_rules_and_targets_are_validated(account: TestAccount) -> None:
    client = account.client("events")
    good = '{"source": ["aws.sagemaker"]}'
    for pattern, said in {
        '{"source": ': "Invalid JSON",
        '["aws.sagemaker"]': "not an object",
        "{}": "not an object, or empty",
        '{"source": "aws.sagemaker"}': "must be an object or a list",
        '{"source": []}': "must be an object or a list",
        '{"source": [{"prefix": "a", "suffix": "b"}]}': "a filter of 'source' is wrong",
        json.dumps({"source": ["x" * 2_048]}): "more than 2048 characters",
    }.items():
        assert said in refused(client.put_rule, Name="good", EventPattern=pattern), pattern
    assert "must be specified" in refused(client.put_rule, Name="good")
    assert "RoleArn is not valid" in refused(client.put_rule, Name="good", EventPattern=good, RoleArn="role")
    for said in ("every tuesday", "rate(1 days)", "at(2030-01-31T04:05:06)"):
        assert "ScheduleExpression is not valid" in refused(client.put_rule, Name="good", ScheduleExpression=said)
    assert client.list_rules()["Rules"] == []
    mine, theirs = [{"Key": "owner", "Value": "me"}], [{"Key": "owner", "Value": "you"}]
    made = client.put_rule(Name="good", EventPattern=good, Tags=mine)["RuleArn"]
    client.put_rule(Name="good", EventPattern=good, Tags=theirs)
    assert client.list_tags_for_resource(ResourceARN=made)["Tags"] == mine
    queue = f"arn:aws:sqs:us-east-1:{account.number}:queue"
    targets = [{"Id": f"t{n}", "Arn": queue} for n in range(6)]
    assert "LimitExceeded" in refused(client.put_targets, Rule="good", Targets=targets)
    client.put_targets(Rule="good", Targets=targets[:5])
    client.put_targets(Rule="good", Targets=targets[:5])
    assert "LimitExceeded" in refused(client.put_targets, Rule="good", Targets=targets[5:])
    pipeline = f"arn:aws:sagemaker:us-east-1:{account.number}:pipeline/good"
    for target, said in (
        ({"Arn": "queue"}, "not in correct format"),
        ({"Arn": queue, "RoleArn": "role"}, "RoleArn"),
        ({"Arn": pipeline}, "RoleArn is required"),
        ({"Arn": f"{queue}.fifo"}, "SqsParameters must be specified"),
        ({"Arn": queue, "DeadLetterConfig": {"Arn": f"{queue}.fifo"}}, "no standard queue"),
    ):
        assert said in refused(client.put_targets, Rule="good", Targets=[{"Id": "t0", **target}])
    assert "ResourceNotFound" in refused(client.put_targets, Rule="nobody", Targets=targets[:1])
    assert "since it has targets" in refused(client.delete_rule, Name="good")
