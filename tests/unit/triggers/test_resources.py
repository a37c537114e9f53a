"""What triggers become in an account, held against the services' own models and sent through moto's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drivetrain import (
    Alarm,
    DataDrift,
    Limit,
    Parameter,
    Pipeline,
    PipelineFinished,
    QualityDrop,
    RegistryEvent,
    Schedule,
    Upload,
    UserError,
)
from drivetrain.decision.served_findings import DATA_DRIFT, QUALITY_DROP, Finding
from drivetrain.triggers.event_pattern import matches
from drivetrain.triggers.patterns import Where, pattern
from drivetrain.triggers.resource_names import name_prefix, resource_name
from drivetrain.triggers.resources import Rule, TriggerSite, resources
from drivetrain.triggers.resources import Schedule as MadeSchedule
from drivetrain.triggers.starting import Request, read_message

EVENTS = Path(__file__).parents[2] / "fixtures" / "events"
ARN = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/Retrain"
WHERE = Where("eu-west-1", "123456789012")
SITE = TriggerSite(
    region="eu-west-1",
    account="123456789012",
    pipeline_arn=ARN,
    scheduler_role="arn:aws:iam::123456789012:role/drivetrain-scheduler",
    event_queue="arn:aws:sqs:eu-west-1:123456789012:drivetrain-events",
    dead_letter_queue="arn:aws:sqs:eu-west-1:123456789012:drivetrain-dead",
)
PARAMETERS = (
    Parameter.string("Model_Arn", "none"),
    Parameter.string("Mode", "full", choices=("full", "quick")),
    Parameter.integer("Rows", 3),
    Parameter.boolean("Anew", False),
    Parameter.number("Share", 0.5),
)
APPROVED = RegistryEvent(
    name="approved",
    group="digits",
    parameters={"Model_Arn": "$.detail.ModelPackageArn", "Mode": "quick", "Rows": 7, "Anew": True},
    limit=Limit(starts=2, every="6 hours"),
)
NIGHTLY = Schedule(
    name="nightly",
    cron="0 2 ? * mon-fri *",
    timezone="Europe/Berlin",
    start="2026-03-01",
    end="2026-06-01T00:00:00Z",
    flexible_minutes=15,
    parameters={"Share": 0.25, "Mode": "quick", "Anew": True},
)
DATA = Upload(name="data", bucket="arrivals", prefix="in/*/", suffix=".csv", once_per="10 minutes")
FEATURES = PipelineFinished(name="features", pipeline="Features", outcome="Succeeded")
DRIFT = Alarm(name="drift", alarm="digits <drift>", enabled=False, dead_letter=False)


def pipeline(*triggers: Any, name: str = "Retrain", **fields: Any) -> Pipeline:
    return Pipeline(name=name, triggers=triggers, parameters=PARAMETERS, **fields)


def event(kind: str) -> dict[str, Any]:
    return json.loads((EVENTS / f"{kind}.json").read_text())


def ended_with_failures() -> dict[str, Any]:
    given = event("pipeline_execution")
    return {**given, "detail": {**given["detail"], "currentPipelineExecutionStatus": "CompletedWithFailures"}}


def made(*triggers: Any, site: TriggerSite = SITE, **fields: Any) -> Any:
    return resources(pipeline(*triggers, **fields), site)


def rule(trigger: Any, **fields: Any) -> Rule:
    (found,) = made(trigger, **fields)
    assert isinstance(found, Rule)
    return found


def violations(shape: Any, value: Any, place: str = "") -> list[str]:
    """What the service's model forbids: unknown and missing fields, lengths, patterns, ranges, choices."""
    if shape.type_name == "structure":
        found = [f"{place}.{name}: unknown" for name in value if name not in shape.members]
        found += [f"{place}.{name}: missing" for name in shape.required_members if name not in value]
        return found + [
            problem
            for name, inner in value.items()
            if name in shape.members
            for problem in violations(shape.members[name], inner, f"{place}.{name}")
        ]
    if shape.type_name == "list":
        return [p for n, inner in enumerate(value) for p in violations(shape.member, inner, f"{place}[{n}]")]
    rules = shape.metadata
    if shape.type_name == "timestamp":
        return [] if isinstance(value, datetime) and value.tzinfo is not None else [f"{place}: no time"]
    if shape.type_name in ("integer", "long"):
        fits = isinstance(value, int) and rules.get("min", value) <= value <= rules.get("max", value)
        return [] if fits else [f"{place}: {value!r}"]
    assert shape.type_name == "string"
    fits = (
        isinstance(value, str)
        and rules.get("min", 0) <= len(value) <= rules.get("max", 10**9)
        and ("pattern" not in rules or re.fullmatch(rules["pattern"], value) is not None)
        and (not getattr(shape, "enum", None) or value in shape.enum)
    )
    return [] if fits else [f"{place}: {value!r}"]


def refused(service: str, operation: str, arguments: Any) -> list[str]:
    import botocore.session

    model = botocore.session.get_session().get_service_model(service)
    return violations(model.operation_model(operation).input_shape, arguments)


def test_the_service_models_accept_all_resources() -> None:
    long_name = "p" + "-x" * 127 + "y"
    for name in ("Retrain", long_name):
        found = made(APPROVED, NIGHTLY, DATA, FEATURES, DRIFT, name=name, max_parallel_steps=3)
        assert [type(one) for one in found] == [Rule, MadeSchedule, Rule, Rule, Rule]
        for one in found:
            if isinstance(one, Rule):
                assert refused("events", "PutRule", one.rule) == []
                assert refused("events", "PutTargets", {"Rule": one.name, "Targets": list(one.targets)}) == []
                assert len(one.rule["EventPattern"]) <= 2_048  # what an account starts with
            else:
                assert refused("scheduler", "CreateSchedule", one.schedule) == []
            assert one.name.startswith(name_prefix(name))
    assert refused("events", "PutRule", {"Name": "a b", "Nmae": "x", "State": "ON"}) == [
        ".Nmae: unknown",
        ".Name: 'a b'",
        ".State: 'ON'",
    ]


def test_the_schedule() -> None:
    (found,) = made(NIGHTLY)
    assert found.schedule == {
        "Name": resource_name("Retrain", "nightly"),
        "ScheduleExpression": "cron(0 2 ? * MON-FRI *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "StartDate": datetime(2026, 2, 28, 23, tzinfo=UTC),
        "EndDate": datetime(2026, 6, 1, tzinfo=UTC),
        "State": "ENABLED",
        "Description": "Trigger nightly of pipeline Retrain",
        "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
        "Target": {
            "Arn": ARN,
            "RoleArn": SITE.scheduler_role,
            "DeadLetterConfig": {"Arn": SITE.dead_letter_queue},
            "RetryPolicy": {"MaximumEventAgeInSeconds": 3_600, "MaximumRetryAttempts": 20},
            "SageMakerPipelineParameters": {
                "PipelineParameterList": [
                    {"Name": "Anew", "Value": "true"},
                    {"Name": "Mode", "Value": "quick"},
                    {"Name": "Share", "Value": "0.25"},
                ]
            },
        },
    }
    (plain,) = made(Schedule(name="s", rate="6 hours", enabled=False, dead_letter=False))
    assert plain.schedule["State"] == "DISABLED"
    assert plain.schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert set(plain.schedule["Target"]) == {"Arn", "RoleArn", "RetryPolicy"}


def test_a_schedule_round_trips_through_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto import mock_aws

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        scheduler = boto3.client("scheduler", region_name="eu-west-1")
        later = NIGHTLY.model_copy(update={"start": "2099-03-01", "end": "2099-06-01T00:00:00Z"})
        for one in made(later, Schedule(name="once", at="2099-03-01T02:00:00"), Schedule(name="s", rate="1 day")):
            scheduler.create_schedule(**one.schedule)
            answer = scheduler.get_schedule(Name=one.name)
            assert {name: answer[name] for name in one.schedule} == one.schedule


def test_the_rule_and_what_travels_in_it() -> None:
    found = rule(APPROVED, max_parallel_steps=4)
    assert found.rule["Tags"] == [
        {"Key": "drivetrain:pipeline", "Value": "Retrain"},
        {"Key": "drivetrain:trigger", "Value": "approved"},
    ]
    (target,) = found.targets
    assert (target["Arn"], target["DeadLetterConfig"]) == (SITE.event_queue, {"Arn": SITE.dead_letter_queue})
    template = target["InputTransformer"]["InputTemplate"]
    request, given = read_message(template.replace("<aws.events.event.json>", json.dumps(event("model_package"))))
    assert given == event("model_package")
    assert isinstance(request, Request)
    assert (request.trigger, request.pipeline, request.pipeline_arn) == ("approved", "Retrain", ARN)
    assert (request.starts, request.seconds, request.window_seconds) == (2, 21_600, None)
    assert request.max_parallel_steps == 4
    values = {name: (one.type, one.value, one.choices) for name, one in request.parameters.items()}
    assert values == {
        "Model_Arn": ("String", "$.detail.ModelPackageArn", ()),
        "Mode": ("String", "quick", ("full", "quick")),
        "Rows": ("Integer", "7", ()),
        "Anew": ("Boolean", "true", ()),
    }


def test_template_text_cannot_be_an_event_placeholder() -> None:
    trigger = APPROVED.model_copy(update={"parameters": {"Model_Arn": "<id> & <aws.events.event.json>"}})
    template = rule(trigger).targets[0]["InputTransformer"]["InputTemplate"]
    assert template.count("<") == template.count(">") == 1
    request, _ = read_message(template.replace("<aws.events.event.json>", "{}"))
    assert request.parameters["Model_Arn"].value == "<id> & <aws.events.event.json>"


def test_switched_off_and_without_dead_letters() -> None:
    found = rule(DRIFT)
    assert found.rule["State"] == "DISABLED"
    assert "DeadLetterConfig" not in found.targets[0]
    without = replace(SITE, dead_letter_queue=None)
    assert "DeadLetterConfig" not in rule(APPROVED, site=without).targets[0]


def test_a_fifo_queue_has_a_message_group_per_pipeline() -> None:
    fifo = replace(SITE, event_queue=f"{SITE.event_queue}.fifo")
    found = rule(APPROVED, site=fifo)
    assert refused("events", "PutTargets", {"Rule": found.name, "Targets": list(found.targets)}) == []
    one, two, other = rule(APPROVED, site=fifo), rule(DRIFT, site=fifo), rule(DRIFT, site=fifo, name="Other")
    groups = [made.targets[0]["SqsParameters"]["MessageGroupId"] for made in (one, two, other)]
    assert groups[0] == groups[1] != groups[2]


def test_required_resources_are_listed() -> None:
    bare = TriggerSite(region="eu-west-1", account="123456789012", pipeline_arn=ARN)
    with pytest.raises(UserError, match="'approved' is by events, which need the queue"):
        made(APPROVED, site=bare)
    with pytest.raises(UserError, match="'nightly' is a schedule, which needs a role"):
        made(NIGHTLY, site=bare)
    assert made(site=bare) == ()


def test_too_many_values_for_a_template() -> None:
    parameters = tuple(Parameter.string(f"P{place}", "x") for place in range(9))
    trigger = Alarm(name="a", alarm="x", parameters={one.name: "v" * 1_000 for one in parameters})
    with pytest.raises(UserError, match="at most 8,192"):
        resources(Pipeline(name="p", parameters=parameters, triggers=(trigger,)), SITE)


def package(**detail: Any) -> dict[str, Any]:
    found = event("model_package")
    found["detail"].update(detail)
    return found


@pytest.mark.parametrize(
    ("trigger", "given", "fires"),
    [
        (APPROVED, package(), True),
        (APPROVED, package(ModelApprovalStatus="Rejected"), False),
        (APPROVED, package(ModelPackageGroupName="letters"), False),
        (APPROVED, package(UpdatedModelPackageFields=["ModelCard"]), False),
        (APPROVED, package(MetadataProperties={"GeneratedBy": f"{ARN}/execution/a"}), False),
        (APPROVED, package(MetadataProperties={"GeneratedBy": f"{ARN.lower()}/execution/a"}), False),
        (APPROVED, package(MetadataProperties={"GeneratedBy": f"{ARN}-2/execution/a"}), True),
        (APPROVED, package(MetadataProperties={}), True),
        (
            APPROVED.model_copy(update={"loop_guard": False}),
            package(MetadataProperties={"GeneratedBy": f"{ARN}/execution/a"}),
            True,
        ),
        (RegistryEvent(name="r", group="digits", stage="Staging"), package(), True),
        (RegistryEvent(name="r", group="digits", stage="Production"), package(), False),
        (RegistryEvent(name="r", group="digits", stage="Staging", stage_status="Rejected"), package(), False),
        (RegistryEvent(name="r", group="digits", status=None, stage="Staging"), package(), False),
        (
            RegistryEvent(name="r", group="digits", status=None, stage="Staging"),
            package(UpdatedModelPackageFields=["ModelLifeCycle"]),
            True,
        ),
        (RegistryEvent(name="r", group="digits", changed=()), package(UpdatedModelPackageFields=[]), True),
        (PipelineFinished(name="f", pipeline="FEATURES"), event("pipeline_execution"), True),
        (PipelineFinished(name="f", pipeline="feature"), event("pipeline_execution"), False),
        (PipelineFinished(name="f", pipeline="features", outcome="Failed"), event("pipeline_execution"), False),
        (PipelineFinished(name="f", pipeline="features", outcome="CompletedWithFailures"), ended_with_failures(), True),
        (PipelineFinished(name="f", pipeline="features"), ended_with_failures(), False),
        (PipelineFinished(name="f", pipeline="features"), event("pipeline_step"), False),
        (APPROVED, event("training_job"), False),
    ],
)
def test_a_pattern_fires_only_for_matching_events(trigger: Any, given: dict[str, Any], fires: bool) -> None:
    assert matches(pattern(trigger, ARN, WHERE), given) is fires


CENTRAL = "arn:aws:sagemaker:eu-west-1:999999999999:model-package-group/digits"


@pytest.mark.parametrize(
    ("trigger", "given"),
    [
        (APPROVED, package()),
        (PipelineFinished(name="f", pipeline="features"), event("pipeline_execution")),
        (Upload(name="u", bucket="arrivals"), lambda: uploaded("a")),
        (Alarm(name="a", alarm="d"), lambda: alarm("d", "ALARM")),
    ],
)
def test_forwarded_events_of_other_accounts_start_nothing(trigger: Any, given: Any) -> None:
    given = given() if callable(given) else given
    assert matches(pattern(trigger, ARN, WHERE), given)
    assert not matches(pattern(trigger, ARN, WHERE), {**given, "account": "999999999999"})


@pytest.mark.parametrize(
    ("trigger", "given"),
    [
        (RegistryEvent(name="r", group=CENTRAL), package()),
        (Upload(name="u", bucket="arrivals", account="999999999999"), lambda: uploaded("a")),
        (Alarm(name="a", alarm="arn:aws:cloudwatch:eu-west-1:999999999999:alarm:d"), lambda: alarm("d", "ALARM")),
    ],
)
def test_events_of_a_named_account_start_the_pipeline(trigger: Any, given: Any) -> None:
    given = given() if callable(given) else given
    assert not matches(pattern(trigger, ARN, WHERE), given)
    assert matches(pattern(trigger, ARN, WHERE), {**given, "account": "999999999999"})


def uploaded(key: str, bucket: str = "arrivals") -> dict[str, Any]:
    return {
        "account": WHERE.account,
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": bucket}, "object": {"key": key, "size": 5}, "reason": "PutObject"},
    }


@pytest.mark.parametrize(
    ("prefix", "suffix", "key", "fires"),
    [
        ("", "", "anything", True),
        ("in/", "", "in/a", True),
        ("in/", "", "out/in/a", False),
        ("", ".csv", "a.csv", True),
        ("", ".csv", "a.csv.gz", False),
        ("in/", ".csv", "in/a.csv", True),
        ("in/", ".csv", "in/a.txt", False),
        ("in/*/", ".csv", "in/*/a.csv", True),
        ("in/*/", ".csv", "in/x/a.csv", False),
        ("a\\", ".csv", "a\\b.csv", True),
    ],
)
def test_uploads(prefix: str, suffix: str, key: str, fires: bool) -> None:
    trigger = Upload(name="u", bucket="arrivals", prefix=prefix, suffix=suffix)
    assert matches(pattern(trigger, ARN, WHERE), uploaded(key)) is fires
    assert not matches(pattern(trigger, ARN, WHERE), uploaded(key, bucket="others"))


def finding(kind: Any, **given: Any) -> dict[str, Any]:
    made = Finding(kind=kind, group="digits", version=3, day="2026-11-30", told_at=1_000.0, **given)
    return made.event(region=WHERE.region, account=WHERE.account)


@pytest.mark.parametrize(
    ("trigger", "event", "fires"),
    [
        (DataDrift(name="t", group="digits"), finding(DATA_DRIFT, columns=("age", "sum")), True),
        (DataDrift(name="t", group="digits", columns=("sum", "x")), finding(DATA_DRIFT, columns=("age", "sum")), True),
        (DataDrift(name="t", group="digits", columns=("x",)), finding(DATA_DRIFT, columns=("age", "sum")), False),
        (DataDrift(name="t", group="letters"), finding(DATA_DRIFT, columns=("age",)), False),
        (DataDrift(name="t", group="digits"), finding(QUALITY_DROP, metric="accuracy"), False),
        (QualityDrop(name="t", group="digits"), finding(QUALITY_DROP, metric="accuracy"), True),
        (QualityDrop(name="t", group="digits", metric="accuracy"), finding(QUALITY_DROP, metric="accuracy"), True),
        (QualityDrop(name="t", group="digits", metric="auc"), finding(QUALITY_DROP, metric="accuracy"), False),
        (QualityDrop(name="t", group="digits"), finding(DATA_DRIFT, columns=("age",)), False),
    ],
)
def test_findings_in_served_data(trigger: Any, event: dict[str, Any], fires: bool) -> None:
    assert matches(pattern(trigger, ARN, WHERE), event) is fires
    assert not matches(pattern(trigger, ARN, WHERE), {**event, "account": "999999999999"})


@pytest.mark.parametrize(("name", "value", "fires"), [("d", "ALARM", True), ("d", "OK", False), ("e", "ALARM", False)])
def test_alarms(name: str, value: str, fires: bool) -> None:
    assert matches(pattern(Alarm(name="a", alarm="d"), ARN, WHERE), alarm(name, value)) is fires


def alarm(name: str, value: str) -> dict[str, Any]:
    return {
        "account": WHERE.account,
        "source": "aws.cloudwatch",
        "detail-type": "CloudWatch Alarm State Change",
        "detail": {"alarmName": name, "state": {"value": value}, "previousState": {"value": "OK"}},
    }
