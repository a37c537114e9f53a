from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from drivetrain import Pipeline, fail
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.pipeline import RegistryEvent, Schedule
from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy, remains
from drivetrain.targets.sagemaker.deploy.planning.triggers import (
    AccountTrigger,
    desired_triggers,
    read_triggers,
    remove,
    write,
)
from drivetrain.triggers.resource_names import OWNER
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place


def test_declared_triggers_read_back_as_they_were_written(place: Place) -> None:
    account = place.outside.number
    pipeline = Pipeline(
        name=NAME,
        steps=[fail("no")],
        deployment=Deployment(
            targets={
                "sagemaker": {
                    "scheduler_role": f"arn:aws:iam::{account}:role/scheduler",
                    "event_queue": f"arn:aws:sqs:us-east-1:{account}:events",
                    "dead_letter_queue": f"arn:aws:sqs:us-east-1:{account}:dead",
                }
            }
        ),
        triggers=[
            Schedule(name="daily", cron="0 3 * * ? *", timezone="Europe/Zurich", flexible_minutes=15),
            Schedule(name="until", rate="2 hours", end="2030-01-01T00:00:00", enabled=False),
            RegistryEvent(name="approved", group="champions"),
        ],
    )
    arn = place.account.arn("sagemaker", f"pipeline/{NAME}")
    wanted = desired_triggers(pipeline, place.account, arn)
    assert [trigger.kind for trigger in wanted] == ["rule", "schedule", "schedule"]
    for trigger in wanted:
        write(place.account, trigger, None)
    assert read_triggers(place.account, NAME, arn) == wanted
    # The service may spell the pipeline's name in lower case in its ARN.
    assert read_triggers(place.account, NAME, arn.upper()) == wanted
    for trigger in wanted:
        write(place.account, trigger, trigger)
        assert AccountTrigger.from_json(json.loads(json.dumps(trigger.to_json()))) == trigger
    assert read_triggers(place.account, NAME, arn) == wanted
    for trigger in (*wanted, *wanted):
        remove(place.account, trigger)
    assert read_triggers(place.account, NAME, arn) == ()


def test_defaults_and_spellings_make_no_difference() -> None:
    target = {"Arn": "a", "RoleArn": "r"}
    plain = AccountTrigger.schedule({"Name": "n", "ScheduleExpression": "rate(1 day)", "Target": target})
    answered = {
        "Name": "n",
        "Arn": "arn",
        "ScheduleExpression": "rate(1 day)",
        "State": "ENABLED",
        "GroupName": "default",
        "ScheduleExpressionTimezone": "UTC",
        "ActionAfterCompletion": "NONE",
        "Target": {**target, "RetryPolicy": {"MaximumEventAgeInSeconds": 86_400, "MaximumRetryAttempts": 185}},
        "CreationDate": datetime(2026, 1, 1, tzinfo=UTC),
    }
    assert AccountTrigger.schedule(answered) == plain
    assert AccountTrigger.schedule({**answered, "State": "DISABLED"}) != plain
    dated = AccountTrigger.schedule({**answered, "EndDate": datetime(2026, 1, 1, tzinfo=UTC)})
    assert dated.arguments["EndDate"] == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    one = AccountTrigger.rule({"Name": "n", "EventPattern": '{"b": [1], "a": {"c": ["d"]}}', "State": "ENABLED"}, [])
    assert one == AccountTrigger.rule(
        {"Name": "n", "EventPattern": '{"a":{"c":["d"]},"b":[1]}', "EventBusName": "default"}, []
    )
    assert one != AccountTrigger.rule({"Name": "n", "EventPattern": '{"a":{"c":["d"]},"b":[2]}'}, [])


def test_undeclared_targets_are_removed(place: Place) -> None:
    queue = f"arn:aws:sqs:us-east-1:{place.outside.number}"
    pattern = {"EventPattern": '{"source":["aws.s3"]}', "Tags": [{"Key": OWNER, "Value": NAME}]}
    two = AccountTrigger.rule(
        {"Name": f"{NAME}_x", **pattern}, [{"Id": "a", "Arn": f"{queue}:a"}, {"Id": "b", "Arn": f"{queue}:b"}]
    )
    one = AccountTrigger.rule({"Name": f"{NAME}_x", **pattern}, [{"Id": "b", "Arn": f"{queue}:c"}])
    arn = place.account.arn("sagemaker", f"pipeline/{NAME}")
    write(place.account, two, None)
    assert read_triggers(place.account, NAME, arn) == (two,)
    write(place.account, one, two)
    assert read_triggers(place.account, NAME, arn) == (one,)


def test_the_tags_of_the_stack_that_made_a_rule_make_no_difference(place: Place) -> None:
    """CloudFormation puts the tags of a stack on what it makes."""
    rule = place.rule()
    place.apply(place.wanted(triggers=(rule,)))
    events = place.outside.client("events")
    (made,) = events.list_rules(NamePrefix=rule.name)["Rules"]
    events.tag_resource(ResourceARN=made["Arn"], Tags=[{"Key": "drivetrain:stack-of", "Value": NAME}])
    assert place.plan(place.wanted(triggers=(rule,))).is_empty


@pytest.mark.slow
def test_a_schedule_that_others_made_for_the_pipeline_is_not_ours(place: Place) -> None:
    ours = place.schedule()
    place.apply(place.wanted(triggers=(ours,)))
    by_hand = replace(ours, name=f"{NAME}-before-the-fair")
    write(place.account, by_hand, None)
    assert place.plan(place.wanted(triggers=(ours,))).is_empty
    place.apply(place.wanted())
    destroy(place.account, remains(place.account, NAME, place.wanted().owner))
    assert list(place.state()["schedules"]) == [by_hand.name]
