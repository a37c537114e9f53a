from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import HalfDoneError
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.applying.applying import LOOKS_AGAIN, apply
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, remove, write
from drivetrain.targets.sagemaker.refusals import ServiceError
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition, long_definition


class Answering(Account):
    """Is answered something else to some calls; `answers` gives it: operation -> what to do with the real answer."""

    def __init__(self, place: Place, **answers: Any) -> None:
        super().__init__(place.outside.region)
        self._clients = place.account._clients
        self.answers = answers
        self.calls: list[str] = []

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        self.calls.append(operation)
        said = super().call(service, operation, about=about, **arguments)
        return self.answers[operation](said) if operation in self.answers else said


def failed(said: dict[str, Any]) -> dict[str, Any]:
    entry = {"TargetId": "queue", "ErrorCode": "ConcurrentModificationException", "ErrorMessage": "Try later."}
    return {**said, "FailedEntryCount": 1, "FailedEntries": [entry]}


def test_rollback_restores_all_properties_and_the_role(place: Place) -> None:
    first = place.wanted()
    place.apply(first)
    before = place.state()
    second = place.wanted(
        definition=definition("ml.m5.2xlarge"),
        role=f"arn:aws:iam::{place.outside.number}:role/another",
        description="Another.",
        display_name="Another",
        max_parallel=2,
        triggers=(place.schedule(),),
    )

    class Denied(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation == "create_schedule":
                found = place.deployed()
                assert found is not None and found.role == second.role
                raise ServiceError("AWS denies create_schedule.", code="AccessDeniedException")
            return super().call(service, operation, about=about, **arguments)

    with pytest.raises(HalfDoneError, match="Taken back: the pipeline, the tags"):
        apply(Denied(place.outside.region), second, place.plan(second))
    found = place.deployed()
    assert found is not None
    assert (found.role, found.description, found.display_name, found.max_parallel) == (
        first.role,
        first.description,
        first.display_name,
        first.max_parallel,
    )
    assert place.state()["pipelines"] == before["pipelines"]
    assert place.plan(first).is_empty


@pytest.mark.slow
def test_an_edit_that_is_longer_than_a_request_is_put_back(place: Place) -> None:
    place.apply(place.wanted())
    theirs, key = long_definition(), "pipelines/theirs.json"
    place.outside.client("s3").put_object(Bucket=place.bucket, Key=key, Body=json.dumps(theirs).encode())
    client = place.outside.client("sagemaker")
    where = {"Bucket": place.bucket, "ObjectKey": key}
    client.update_pipeline(PipelineName=NAME, PipelineDefinitionS3Location=where)
    second = place.wanted(triggers=(place.rule(),))
    with pytest.raises(HalfDoneError, match=r"Taken back: .*the pipeline, the tags") as refused:
        apply(Answering(place, put_targets=failed), second, place.plan(second, discarded=["all"]))
    assert "NOT" not in str(refused.value)
    found = place.deployed()
    assert found is not None and json.loads(found.text) == theirs


def test_a_rejected_target_fails_despite_a_200(place: Place) -> None:
    wanted = place.wanted(triggers=(place.rule(),))
    account = Answering(place, put_targets=failed)
    with pytest.raises(HalfDoneError, match=r"events:PutTargets failed for target 'queue': Try later\."):
        apply(account, wanted, place.plan(wanted))
    state = place.state()
    assert not state["rules"] and not state["pipelines"]


def test_an_unremoved_target_fails_despite_a_200(place: Place) -> None:
    rule = place.rule()
    write(place.account, rule, None)
    account = Answering(place, remove_targets=failed)
    with pytest.raises(ServiceError, match="events:RemoveTargets failed for target 'queue'"):
        remove(account, rule)
    assert "delete_rule" not in account.calls
    other = AccountTrigger("rule", rule.name, rule.arguments, ({**rule.targets[0], "Id": "other"},), rule.tags)
    with pytest.raises(ServiceError, match="events:RemoveTargets failed"):
        write(account, other, rule)


def test_late_tags_are_waited_for(place: Place) -> None:
    wanted = place.wanted(triggers=(place.schedule(),))
    answers = iter([{"Tags": []}, {"Tags": []}])
    waited: list[float] = []
    account = Answering(place, list_tags=lambda said: next(answers, said))
    apply(account, wanted, place.plan(wanted), pause=waited.append)
    assert waited == list(LOOKS_AGAIN[:2])


def test_rules_and_schedules_that_keep_differing_are_reported(place: Place) -> None:
    wanted = place.wanted(triggers=(place.schedule(),))
    waited: list[float] = []
    account = Answering(place, list_schedules=lambda said: {**said, "Schedules": []})
    with pytest.raises(UserError, match=r"is no longer as written \(its rules or schedules differ"):
        apply(account, wanted, place.plan(wanted), pause=waited.append)
    assert waited == list(LOOKS_AGAIN)


def test_an_edit_in_the_moment_after_is_not_waited_for(place: Place) -> None:
    wanted = place.wanted()
    waited: list[float] = []

    def edited(said: dict[str, Any]) -> dict[str, Any]:
        place.edit(Parameters=[])
        return said

    with pytest.raises(UserError, match="the pipeline differs"):
        apply(Answering(place, create_pipeline=edited), wanted, place.plan(wanted), pause=waited.append)
    assert waited == []


def test_an_edit_within_what_the_code_changes_as_a_whole_is_drift(place: Place) -> None:
    """The edit's place is a part of the code's, or the other way round."""
    place.apply(place.wanted())
    steps = definition("ml.m5.4xlarge")["Steps"]
    place.edit(Steps=steps)
    without = {**definition(), "Steps": [definition()["Steps"][0]]}
    plan = place.plan(place.wanted(definition=without))
    assert [change.place for change in plan.overwritten] == [
        "steps.train.Arguments.ProcessingResources.ClusterConfig.InstanceType"
    ]
    # Both have a new parameter, with another default.
    place.apply(place.wanted(), discarded=["all"])

    def with_rows(default: int) -> list[dict[str, Any]]:
        return [*definition()["Parameters"], {"Name": "Rows", "Type": "Integer", "DefaultValue": default}]

    place.edit(Parameters=with_rows(1))
    whole = place.plan(place.wanted(definition={**definition(), "Parameters": with_rows(2)}))
    assert [change.place for change in whole.overwritten] == ["parameters.Rows"]


def test_fingerprints_cover_each_property_and_trigger(place: Place) -> None:
    """A plan is stale when one of them is another, in the account and in the code."""
    wanted = place.wanted(triggers=(place.schedule(),))
    place.apply(wanted)
    there = place.deployed()
    assert there is not None
    changes: list[dict[str, Any]] = [
        {"role": "another"},
        {"display_name": "another"},
        {"description": "another"},
        {"max_parallel": 1},
        {"triggers": (place.schedule("rate(2 days)"),)},
        {"triggers": ()},
    ]
    for change in changes:
        assert replace(there, **change).fingerprint != there.fingerprint, change
        assert replace(wanted, **change).fingerprint != wanted.fingerprint, change
    for tag in there.tags:
        if tag.startswith("drivetrain:"):
            assert replace(there, tags={**there.tags, tag: "x"}).fingerprint != there.fingerprint, tag
    assert replace(wanted, tags={}).fingerprint != wanted.fingerprint
    assert replace(there).fingerprint == there.fingerprint and replace(wanted).fingerprint == wanted.fingerprint


@pytest.mark.slow
def test_only_the_tag_is_behind(place: Place) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    client = place.outside.client("sagemaker")
    around = place.state()["pipelines"][NAME]["around"]
    assert len(around) == 2
    client.delete_tags(ResourceArn=wanted.arn, TagKeys=list(around))
    plan = place.plan(wanted)
    assert plan.action == "update" and plan.refusal is None
    account = Answering(place)
    apply(account, wanted, plan)
    assert "update_pipeline" not in account.calls
    assert place.state()["pipelines"][NAME]["around"] == around
    assert place.state()["pipelines"][NAME]["tags"][APPLIED] == wanted.sha256
