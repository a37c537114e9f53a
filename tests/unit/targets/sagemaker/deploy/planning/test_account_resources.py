from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from drivetrain import Pipeline, fail
from drivetrain.base.errors import UserError
from drivetrain.deploying.plan import lines
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.pipeline import Schedule
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy, remains
from drivetrain.targets.sagemaker.deploy.planning.account_resources import described, told_by_pull, touched
from drivetrain.targets.sagemaker.deploy.planning.drift import edits_beside
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, desired_triggers
from drivetrain.targets.sagemaker.document.difference.change import Change
from drivetrain.triggers.resource_names import OWNER, TRIGGER, resource_name
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition

DAILY = resource_name(NAME, "daily")


def test_an_edit_is_touched_at_its_place_in_a_part_and_in_a_whole() -> None:
    edits = [Change(place, 1, 2) for place in [("steps", "a"), ("steps", "b", "Type"), ("steps", "ab"), ("steps", "c")]]
    by = [Change(place, 2, 3) for place in [("steps", "a", "Type"), ("steps", "b"), ("steps", "c")]]
    assert touched(edits, by) == (edits[0], edits[1], edits[3])
    assert touched(edits, []) == ()


@pytest.mark.slow
def test_a_schedule_that_somebody_disabled_is_drift(place: Place) -> None:
    wanted = place.wanted(triggers=(place.schedule(),))
    place.apply(wanted)
    place.turn(State="DISABLED")
    plan = place.plan(wanted)
    where = f"schedules.{DAILY}.State"
    assert [change.place for change in plan.drift] == [change.place for change in plan.overwritten] == [where]
    told = "\n".join(lines(plan))
    assert f"schedule '{DAILY}': state ENABLED -> DISABLED  ({where})" in told
    assert f"~ schedule '{DAILY}'\n    state DISABLED -> ENABLED" in told
    with pytest.raises(UserError, match=rf"was edited since the last apply.*{where}.*write it in the code") as refused:
        place.apply(wanted)
    assert "drivetrain pull" not in str(refused.value)
    # The code says it, too: nothing is undone.
    off = replace(place.schedule(), arguments={**place.schedule().arguments, "State": "DISABLED"})
    same = place.plan(place.wanted(triggers=(off,)))
    assert same.drift and same.refusal is None and not same.triggers
    assert f"schedule '{DAILY}': state ENABLED -> DISABLED" in "\n".join(lines(same))
    # Or it is given up.
    place.apply(wanted, discarded=[f"schedules.{DAILY}"])
    assert place.state()["schedules"][DAILY][1] == "ENABLED"
    assert place.plan(wanted).is_empty


@pytest.mark.slow
def test_a_change_of_the_code_is_no_drift(place: Place) -> None:
    place.apply(place.wanted(triggers=(place.schedule(), place.rule())))
    changed = place.wanted(
        description="Another.",
        display_name="Nightly",
        max_parallel=3,
        tags={"team": "speech", "more": "x"},
        triggers=(place.schedule("rate(2 days)"), place.schedule("rate(3 days)", name="other")),
    )
    plan = place.plan(changed)
    assert plan.drift == () and plan.refusal is None
    place.apply(changed)
    assert place.plan(changed).is_empty


@pytest.mark.slow_cases(but=["pipeline.Description-edit0"])
@pytest.mark.parametrize(
    ("where", "edit"),
    [
        ("pipeline.Description", {"PipelineDescription": "Theirs."}),
        ("pipeline.DisplayName", {"PipelineDisplayName": "Theirs"}),
        ("pipeline.MaxParallelExecutionSteps", {"ParallelismConfiguration": {"MaxParallelExecutionSteps": 2}}),
        ("pipeline.RoleArn", {"RoleArn": "arn:aws:iam::{number}:role/theirs"}),
    ],
)
def test_a_property_that_somebody_edited_is_drift(place: Place, where: str, edit: dict[str, Any]) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    edit = {
        name: value.format(number=place.outside.number) if name == "RoleArn" else value for name, value in edit.items()
    }
    stale = place.plan(place.wanted(definition=definition("ml.m5.2xlarge")))
    place.outside.client("sagemaker").update_pipeline(PipelineName=NAME, **edit)
    plan = place.plan(wanted)
    assert [change.place for change in plan.overwritten] == [where]
    with pytest.raises(UserError, match=where):
        place.apply(wanted)
    with pytest.raises(UserError, match="The plan is stale"):
        apply(place.account, place.wanted(definition=definition("ml.m5.2xlarge")), stale)
    place.apply(wanted, discarded=[where])
    assert place.plan(wanted).is_empty


def test_tags_of_ours_and_of_others(place: Place) -> None:
    wanted = place.wanted(triggers=(place.rule(),))
    place.apply(wanted)
    client = place.outside.client("sagemaker")
    client.add_tags(ResourceArn=wanted.arn, Tags=[{"Key": "cost-centre", "Value": "7"}])
    rule = place.outside.client("events").describe_rule(Name=place.rule().name)["Arn"]
    place.outside.client("events").tag_resource(ResourceARN=rule, Tags=[{"Key": "cost-centre", "Value": "7"}])
    assert place.plan(wanted).is_empty
    client.add_tags(ResourceArn=wanted.arn, Tags=[{"Key": "team", "Value": "theirs"}])
    assert [change.place for change in place.plan(wanted).overwritten] == ["pipeline.Tags.team"]
    other = place.wanted(triggers=(place.rule("Rejected"),), tags={})
    assert place.plan(other).refusal is None
    place.apply(other)
    tags = place.outside.client("events").list_tags_for_resource(ResourceARN=rule)["Tags"]
    assert {"Key": "cost-centre", "Value": "7"} in tags
    assert place.plan(other).is_empty
    assert place.state()["pipelines"][NAME]["tags"]["team"] == "theirs"


def test_tags_of_a_stack_are_no_difference() -> None:
    ours = [{"Key": OWNER, "Value": NAME}, {"Key": TRIGGER, "Value": "x"}]
    stacks = [{"Key": "aws:cloudformation:stack-name", "Value": "s"}, {"Key": "team", "Value": "vision"}]
    given = {"Name": "n", "EventPattern": '{"a":["b"]}'}
    assert AccountTrigger.rule({**given, "Tags": [*stacks, *ours]}, []) == AccountTrigger.rule(
        {**given, "Tags": ours}, []
    )
    assert AccountTrigger.rule({**given, "Tags": stacks}, []) != AccountTrigger.rule({**given, "Tags": ours}, [])


def test_edits_of_a_rule_are_reported_and_refused(place: Place) -> None:
    rule = place.rule()
    wanted = place.wanted(triggers=(rule,))
    place.apply(wanted)
    events = place.outside.client("events")
    pattern = {"source": ["aws.sagemaker"], "detail": {"ModelApprovalStatus": ["Rejected"]}}
    events.put_rule(Name=rule.name, EventPattern=json.dumps(pattern), State="DISABLED")
    queue = f"arn:aws:sqs:us-east-1:{place.outside.number}:theirs"
    events.put_targets(Rule=rule.name, Targets=[{"Id": "queue", "Arn": queue}])
    plan = place.plan(wanted)
    assert {change.place.removeprefix(f"rules.{rule.name}.") for change in plan.overwritten} == {
        "State",
        "EventPattern.detail.ModelApprovalStatus",
        "Targets.queue.Arn",
    }
    told = "\n".join(lines(plan))
    for words in (
        f"rule '{rule.name}': state ENABLED -> DISABLED",
        f'rule \'{rule.name}\': pattern detail ModelApprovalStatus ["Approved"] -> ["Rejected"]',
        f"target arn:aws:sqs:us-east-1:{place.outside.number}:events -> {queue}",
    ):
        assert words in told, told
    assert plan.refusal is not None
    place.apply(wanted, discarded=["rules"])
    assert place.plan(wanted).is_empty
    # One that somebody deleted is an edit, too; where the code has it no longer, nothing is undone.
    events.remove_targets(Rule=rule.name, Ids=["queue"])
    events.delete_rule(Name=rule.name)
    gone = place.plan(wanted)
    assert [change.place for change in gone.overwritten] == [f"rules.{rule.name}"]
    assert f"rule '{rule.name}' removed (by events)" in "\n".join(lines(gone))
    assert place.plan(place.wanted()).refusal is None


@pytest.mark.slow
def test_a_rule_that_lost_its_tag_is_still_known(place: Place) -> None:
    tags = [{"Key": OWNER, "Value": NAME}, {"Key": TRIGGER, "Value": "x"}]
    rule = AccountTrigger.rule(
        {"Name": resource_name(NAME, "x"), "EventPattern": '{"source":["aws.s3"]}', "Tags": tags}, []
    )
    wanted = place.wanted(triggers=(rule,))
    place.apply(wanted)
    events = place.outside.client("events")
    arn = events.describe_rule(Name=rule.name)["Arn"]
    events.untag_resource(ResourceARN=arn, TagKeys=[OWNER])
    plan = place.plan(wanted)
    assert [(item.action, item.lines) for item in plan.triggers] == [("update", ("its tags",))]
    place.apply(wanted)
    assert {"Key": OWNER, "Value": NAME} in events.list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert place.plan(wanted).is_empty


def test_schedule_inputs_are_shown_without_secrets(place: Place) -> None:
    def passing(**values: str) -> AccountTrigger:
        plain = place.schedule()
        said = {"PipelineParameterList": [{"Name": name, "Value": value} for name, value in values.items()]}
        target = {**plain.arguments["Target"], "SageMakerPipelineParameters": said}
        return AccountTrigger.schedule({"Name": plain.name, **plain.arguments, "Target": target})

    parameters = [{"Name": name, "Type": "String", "DefaultValue": "x"} for name in ("Rows", "ApiToken")]
    read = {**definition(), "Parameters": parameters}
    place.apply(place.wanted(definition=read, triggers=(passing(Rows="1", ApiToken="canary-one"),)))
    plan = place.plan(place.wanted(definition=read, triggers=(passing(Rows="2", ApiToken="canary-two"),)))
    [change] = plan.triggers
    assert set(change.lines) == {"parameter Rows 1 -> 2", "parameter ApiToken changed (***)"}
    target = passing(Rows="3", ApiToken="canary-three").arguments["Target"]
    place.turn(Target=target)
    drifted = place.plan(place.wanted(definition=read, triggers=(passing(Rows="2", ApiToken="canary-two"),)))
    assert len(drifted.overwritten) == 2
    assert "canary" not in drifted.text() + "\n".join(lines(drifted)) + str(drifted.refusal)


@pytest.mark.slow
def test_a_schedule_that_starts_something_else_now(place: Place) -> None:
    wanted = place.wanted(triggers=(place.schedule(),))
    place.apply(wanted)
    other = f"arn:aws:sqs:us-east-1:{place.outside.number}:theirs"
    place.turn(Target={**place.schedule().arguments["Target"], "Arn": other})
    plan = place.plan(wanted)
    assert [change.place for change in plan.overwritten] == [f"schedules.{DAILY}.Target.Arn"]
    with pytest.raises(UserError, match=r"Target\.Arn"):
        place.apply(wanted)
    found = remains(place.account, NAME, wanted.owner)
    assert found.triggers == () and len(found.kept) == 1
    assert f"schedule '{DAILY}' stays: it was changed to start {other}" in found.kept[0]
    destroy(place.account, found)
    assert list(place.state()["schedules"]) == [DAILY]
    # A new pipeline of that name: it is in the way, and said to be.
    again = place.plan(wanted)
    assert again.action == "create"
    assert [change.place for change in again.overwritten] == [f"schedules.{DAILY}.Target.Arn"]
    assert again.refusal is not None and other in "\n".join(lines(again))
    place.apply(wanted, discarded=["schedules"])
    assert place.state()["schedules"][DAILY][2]["Arn"] == wanted.arn
    assert place.plan(wanted).is_empty


@pytest.mark.slow
def test_schedules_that_outlived_their_pipeline_are_taken_over(place: Place) -> None:
    place.apply(place.wanted(triggers=(place.schedule(), place.schedule(name="other"))))
    place.outside.client("sagemaker").delete_pipeline(PipelineName=NAME)
    wanted = place.wanted(triggers=(place.schedule("rate(2 days)"),))
    plan = place.plan(wanted)
    assert [item.action for item in plan.triggers] == ["update", "delete"] and plan.refusal is None
    place.apply(wanted)
    assert list(place.state()["schedules"]) == [DAILY]
    assert place.plan(wanted).is_empty


@pytest.mark.slow
def test_a_past_start_is_not_repeated(place: Place) -> None:
    """The service takes none, and a schedule whose start is over begins at once, as one without a start does."""
    began = datetime(2020, 1, 1, tzinfo=UTC)
    plain = {"Name": DAILY, **place.schedule().arguments}
    started = AccountTrigger.schedule({**plain, "StartDate": began})
    place.apply(place.wanted(triggers=(started,)))
    scheduler = place.outside.client("scheduler")
    assert "StartDate" not in scheduler.get_schedule(Name=DAILY)
    assert place.plan(place.wanted(triggers=(started,))).is_empty
    later = AccountTrigger.schedule({**plain, "StartDate": datetime.fromtimestamp(time.time() + 86_400, UTC)})
    place.apply(place.wanted(triggers=(later,)))
    assert scheduler.get_schedule(Name=DAILY)["StartDate"] > datetime.now(UTC)
    assert place.plan(place.wanted(triggers=(later,))).is_empty


def pipeline_of(place: Place, **more: Any) -> Pipeline:
    given: dict[str, Any] = {
        "name": NAME,
        "description": "What it does.",
        "tags": {"team": "vision"},
        "steps": [fail("no")],
        "deployment": Deployment(
            targets={
                "sagemaker": {
                    "bucket": place.bucket,
                    "prefix": "pipelines",
                    "role": f"arn:aws:iam::{place.outside.number}:role/pipelines",
                    "scheduler_role": f"arn:aws:iam::{place.outside.number}:role/scheduler",
                }
            }
        ),
        "triggers": [Schedule(name="daily", rate="1 day")],
    }
    return Pipeline(**{**given, **more})


@pytest.mark.slow
def test_edits_reported_to_pull(place: Place) -> None:
    pipeline = pipeline_of(place)
    wanted = place.wanted(triggers=desired_triggers(pipeline, place.account, place.wanted().arn))
    place.apply(wanted)

    def told(code: Pipeline) -> list[str]:
        deployed = place.deployed()
        assert deployed is not None
        found = edits_beside(place.account, code, deployed)
        assert len(told_by_pull(found)) == (len(found) + 1 if found else 0)
        assert all(change.where in "\n".join(told_by_pull(found)) for change in found)
        return [described(change) for change in found]

    assert told(pipeline) == told(pipeline_of(place, description="Another.")) == []
    place.describe("Theirs.")
    assert told(pipeline) == ["description What it does. -> Theirs."]
    assert told(pipeline_of(place, description="Theirs.")) == []
    # What triggers become is not asked where nothing is to be said of them.
    bare = pipeline_of(
        place, deployment=Deployment(targets={"sagemaker": {"bucket": place.bucket, "prefix": "pipelines"}})
    )
    assert told(bare) == ["description What it does. -> Theirs."]
    scheduler = place.outside.client("scheduler")
    said = scheduler.get_schedule(Name=DAILY)
    kept = ("ScheduleExpression", "FlexibleTimeWindow", "Target", "Description")
    scheduler.update_schedule(Name=DAILY, State="DISABLED", **{key: said[key] for key in kept})
    assert told(pipeline)[1:] == [f"schedule '{DAILY}': state ENABLED -> DISABLED"]
    off = pipeline_of(place, description="Theirs.", triggers=[Schedule(name="daily", rate="1 day", enabled=False)])
    assert told(off) == []
    # Of a pipeline that apply did not make, all that somebody said counts.
    client = place.outside.client("sagemaker")
    arn = wanted.arn
    client.delete_tags(ResourceArn=arn, TagKeys=[tag["Key"] for tag in client.list_tags(ResourceArn=arn)["Tags"]])
    assert "description What it does. -> Theirs." in told(pipeline)


def test_a_pipeline_of_others_is_not_described_anew(place: Place) -> None:
    wanted = place.wanted()
    client = place.outside.client("sagemaker")
    given = {"PipelineName": NAME, "PipelineDefinition": wanted.text, "RoleArn": wanted.role}
    client.create_pipeline(**given, PipelineDescription="Theirs.", ClientRequestToken="t" * 32)
    plan = place.plan(wanted)
    assert plan.foreign and [change.place for change in plan.overwritten] == ["pipeline.Description"]
    assert plan.refusal is not None
    # What nobody said is no loss: a display name, how many steps at once.
    assert place.plan(replace(wanted, description="Theirs.", display_name="N", max_parallel=3)).refusal is None
