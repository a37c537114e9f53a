from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy, remains
from drivetrain.targets.sagemaker.deploy.executions import executions
from drivetrain.targets.sagemaker.deploy.ownership import Owner
from drivetrain.targets.sagemaker.refusals import ServiceError
from drivetrain.triggers.resource_names import resource_name
from tests.fixtures.sagemaker_service.playing import Playing
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition

EMPTY = {"pipelines": {}, "rules": {}, "schedules": {}, "objects": []}


def root(place: Place) -> str:
    return f"s3://{place.bucket}/pipelines"


def test_destroy_leaves_no_version(place: Place) -> None:
    place.apply(place.wanted(triggers=(place.rule(), place.schedule())))
    place.apply(place.wanted(definition=definition("ml.m5.4xlarge"), triggers=(place.rule(), place.schedule())))
    found = remains(place.account, NAME, Owner(root(place)))
    assert len(found.records) == 6 and len(found.objects) == 2 and len(found.triggers) == 2
    assert len(found.lines()) == 5
    told: list[str] = []
    destroy(place.account, found, tell=told.append)
    assert "4 records of what was applied" in found.lines() and told[-1] == "deleted 4 records", "two are none"
    assert place.state() == EMPTY
    assert remains(place.account, NAME, Owner(root(place))).is_empty


def test_outputs_of_executions_and_foreign_objects_are_kept(place: Place) -> None:
    place.apply(place.wanted())
    other = replace(place, name="other")
    other.apply(other.wanted())
    theirs = {key for key in place.state()["objects"] if key.startswith("pipelines/other/")}
    kept = {f"pipelines/{NAME}/steps/train/abc123/model.tar.gz", f"pipelines/{NAME}/data/notes.txt"}
    for key in kept:
        place.outside.client("s3").put_object(Bucket=place.bucket, Key=key, Body=b"m")
    destroy(place.account, remains(place.account, NAME, Owner(root(place))))
    left = place.state()
    assert list(left["pipelines"]) == ["other"] and set(left["objects"]) == theirs | kept
    assert other.plan(other.wanted()).is_empty


def test_deployments_of_others_during_the_question_are_kept(place: Place) -> None:
    place.apply(place.wanted())
    shown = remains(place.account, NAME, Owner(root(place)))
    weekly = replace(place, name="weekly")
    # A pipeline that names this one's code, as a copy of its definition does.
    shared = replace(weekly.wanted(), definition=place.wanted().definition, assets=place.wanted().assets)
    weekly.apply(shared)
    assert len(shown.objects) == 1
    told: list[str] = []
    done = destroy(place.account, shown, tell=told.append)
    assert done.objects == () and done.records == shown.records
    assert [line for line in told if line.startswith("note: 1 objects of code and data were left")]
    assert "note: code and data that pipeline 'weekly' uses stay: " in told[-2] + told[-3]
    left = place.state()
    assert list(left["pipelines"]) == ["weekly"] and weekly.plan(shared).is_empty
    assert shared.assets[0].uri.removeprefix(f"s3://{place.bucket}/") in left["objects"]
    assert not any(line.startswith("deleted 1 objects") for line in told)


def test_equal_code_of_another_pipeline_does_not_block_deletion(place: Place) -> None:
    place.apply(place.wanted())
    other = replace(place, name="other")
    alike = json.loads(place.wanted().text.replace(f"/{NAME}/", "/other/"))
    assets = tuple(replace(each, uri=each.uri.replace(f"/{NAME}/", "/other/")) for each in place.wanted().assets)
    other.apply(replace(other.wanted(), definition=alike, assets=assets))
    found = remains(place.account, NAME, Owner(root(place)))
    assert len(found.objects) == 1 and not found.kept
    destroy(place.account, found)
    assert not [key for key in place.state()["objects"] if key.startswith(f"pipelines/{NAME}/")]
    assert assets[0].uri.removeprefix(f"s3://{place.bucket}/") in place.state()["objects"]


@pytest.mark.slow
def test_a_pipeline_whose_name_begins_alike_keeps_what_starts_it(place: Place) -> None:
    longer = replace(place, name=f"{NAME}-too")
    place.apply(place.wanted(triggers=(place.rule(), place.schedule())))
    longer.apply(longer.wanted(triggers=(longer.rule(), longer.schedule())))
    destroy(place.account, remains(place.account, NAME, Owner(root(place))))
    state = place.state()
    assert list(state["rules"]) == [f"{NAME}-too_approved"] and list(state["schedules"]) == [
        resource_name(f"{NAME}-too", "daily")
    ]


@pytest.mark.slow
def test_an_interrupted_destroy_continues(place: Place) -> None:
    class Failing(Account):
        def __init__(self, left: int) -> None:
            super().__init__(place.outside.region)
            self._clients = place.account._clients
            self.left = left

        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation.startswith(("delete", "remove")):
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            return super().call(service, operation, about=about, **arguments)

    for number in range(6):
        here = replace(place, name=f"n{number}-{NAME}")
        here.apply(here.wanted(triggers=(here.rule(), here.schedule())))
        with pytest.raises(KeyboardInterrupt):
            destroy(Failing(number), remains(place.account, here.name, Owner(root(place))))
        destroy(place.account, remains(place.account, here.name, Owner(root(place))))
        assert place.state() == EMPTY, number


@pytest.mark.slow
def test_schedules_that_outlived_their_pipeline_are_found(place: Place) -> None:
    place.apply(place.wanted(triggers=(place.rule(), place.schedule())))
    place.outside.client("sagemaker").delete_pipeline(PipelineName=NAME)
    found = remains(place.account, NAME, Owner(root(place)))
    assert found.deployed is None and len(found.triggers) == 2
    destroy(place.account, found)
    assert place.state() == EMPTY


def test_running_and_foreign_pipelines_are_not_destroyed(place: Place) -> None:
    place.apply(place.wanted())
    arn = executions.start(place.account, NAME, StartRequest())
    stop = f"drivetrain runs stop {arn.rpartition('/')[2]} --on sagemaker -p nightly --region us-"
    with pytest.raises(UserError, match=f"is executing .*{stop}"):
        remains(place.account, NAME, Owner(root(place)))
    Playing(place.outside.backend(), arn).conclude()
    client = place.outside.client("sagemaker")
    client.delete_tags(ResourceArn=place.wanted().arn, TagKeys=["drivetrain:applied"])
    with pytest.raises(UserError, match=r"was not made by `drivetrain apply`.*--foreign"):
        remains(place.account, NAME, Owner(root(place)))
    destroy(place.account, remains(place.account, NAME, Owner(root(place)), foreign=True))
    assert place.state() == EMPTY


def test_code_that_a_copy_made_in_studio_uses_stays(place: Place) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    client = place.outside.client("sagemaker")
    client.create_pipeline(
        PipelineName="a-copy", PipelineDefinition=wanted.text, RoleArn=wanted.role, ClientRequestToken="t" * 32
    )
    found = remains(place.account, NAME, Owner(root(place)))
    assert found.objects == () and len(found.records) == 4
    assert len(found.kept) == 1 and "pipeline 'a-copy' uses stay: s3://" in found.kept[0]
    destroy(place.account, found)
    left = place.state()
    assert list(left["pipelines"]) == ["a-copy"]
    assert left["objects"] == [wanted.assets[0].uri.removeprefix(f"s3://{place.bucket}/")]


@pytest.mark.slow
@pytest.mark.parametrize("denied", ["list_pipelines", "describe_pipeline"])
def test_unreadable_other_pipelines_keep_the_code_with_a_note(place: Place, denied: str) -> None:
    place.apply(place.wanted())
    other = replace(place, name="other")
    other.apply(other.wanted())

    class Denied(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation == denied and arguments.get("PipelineName") != NAME:
                raise ServiceError(f"AWS denies {operation}.", code="AccessDeniedException")
            return super().call(service, operation, about=about, **arguments)

    before = place.state()["objects"]
    found = remains(Denied(place.outside.region), NAME, Owner(root(place)))
    assert found.objects == found.records == () and found.deployed is not None
    assert len(found.kept) == 1 and f"cannot be seen. AWS denies {denied}." in found.kept[0]
    destroy(place.account, found)
    assert list(place.state()["pipelines"]) == ["other"] and place.state()["objects"] == before
    # With the permission, what stayed goes.
    destroy(place.account, remains(place.account, NAME, Owner(root(place))))
    assert all("other" in key or "/code/" in key for key in place.state()["objects"])
    assert len(place.state()["objects"]) == len(before) - 4


@pytest.mark.slow
def test_objects_under_another_prefix_are_reported(place: Place) -> None:
    place.apply(place.wanted())
    elsewhere = f"s3://{place.bucket}/elsewhere"
    with pytest.raises(UserError, match=f"it belongs to .*{root(place)}.*the pipeline.*--foreign"):
        remains(place.account, NAME, Owner(elsewhere))
    found = remains(place.account, NAME, Owner(elsewhere), foreign=True)
    assert found.deployed is not None and not found.records and not found.objects
    assert len(found.kept) == 1 and root(place) in found.kept[0] and elsewhere in found.kept[0]
    destroy(place.account, found)
    assert place.state()["objects"]
    destroy(place.account, remains(place.account, NAME, Owner(root(place))))
    assert place.state() == EMPTY


@pytest.mark.slow
def test_a_record_that_is_no_text_is_no_hindrance(place: Place) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    s3 = place.outside.client("s3")
    for key in (f"pipelines/{NAME}/applied/{wanted.sha256}.json", f"pipelines/other/applied/{'0' * 64}.json"):
        s3.put_object(Bucket=place.bucket, Key=key, Body=b"\xff\xfe\x00")
    found = remains(place.account, NAME, Owner(root(place)))
    destroy(place.account, found)
    assert not place.state()["pipelines"]


@pytest.mark.parametrize("status", ["Executing", "Stopping"])
def test_a_stopping_execution_counts_as_running(place: Place, status: str) -> None:
    place.apply(place.wanted())
    arn = executions.start(place.account, NAME, StartRequest())
    Playing(place.outside.backend(), arn).conclude(status)
    with pytest.raises(UserError, match="is executing"):
        remains(place.account, NAME, Owner(root(place)))
