"""Two teams of one account call their pipelines alike: nothing of the other is touched unless that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy, remains
from drivetrain.targets.sagemaker.deploy.applying.writing import Writer
from drivetrain.targets.sagemaker.deploy.deployed import OWNER
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.ownership import MAX_TAG_CHARACTERS, Owner
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition


@pytest.fixture
def theirs(place: Place) -> Desired:
    found = place.wanted(triggers=(place.schedule(), place.rule()), project="vision")
    place.apply(found)
    return found


def ours(place: Place, where: str) -> Desired:
    given: dict[str, Any] = {"definition": definition("ml.m5.4xlarge"), "project": "sound"}
    return replace(place.wanted(**given), **({"root": f"s3://{place.bucket}/sound"} if where == "prefix" else {}))


@pytest.mark.slow_cases("project")
@pytest.mark.parametrize("where", ["prefix", "project"])
def test_another_teams_pipeline_is_not_changed(place: Place, theirs: Desired, where: str) -> None:
    mine, before = ours(place, where), place.state()
    plan = place.plan(mine)
    refusal = plan.refusal
    assert refusal is not None and "project 'vision'" in refusal and "--adopt" in refusal and "--discard" in refusal
    with pytest.raises(UserError, match="project 'vision'"):
        apply(place.account, mine, plan)
    with pytest.raises(UserError, match=r"project 'vision'.*schedule.*the pipeline.*--foreign"):
        remains(place.account, NAME, mine.owner)
    assert place.state() == before and place.plan(theirs).is_empty


@pytest.mark.slow_cases("prefix")
@pytest.mark.parametrize("where", ["prefix", "project"])
def test_an_adopted_pipeline_is_refused_to_its_former_owner(place: Place, theirs: Desired, where: str) -> None:
    mine = ours(place, where)
    refusal = place.plan(mine, adopted=True).refusal
    assert refusal is not None and "steps.train" in refusal, "what is given up is named, also where it is adopted"
    place.apply(mine, discarded=["all"])
    assert place.plan(mine).is_empty
    assert "project 'sound'" in (place.plan(theirs).refusal or "")
    with pytest.raises(UserError, match="project 'sound'"):
        remains(place.account, NAME, theirs.owner)
    destroy(place.account, remains(place.account, NAME, mine.owner))
    assert place.plan(theirs).refusal is None


def test_the_same_pipeline_is_taken_over_by_adopting_it(place: Place, theirs: Desired) -> None:
    mine = replace(theirs, project="sound")
    assert "--adopt" in (place.plan(mine).refusal or "")
    place.apply(mine, adopted=True)
    assert place.plan(mine).is_empty


def test_a_lock_that_is_lost_while_it_is_taken_over_is_an_error(
    place: Place, theirs: Desired, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(writer: Writer, owner: Owner, *, once: bool) -> None:
        if not once:
            raise UserError("Another writer took over the lock.")

    monkeypatch.setattr(Writer, "keep_owner", lost)
    with pytest.raises(UserError, match=r"^Another writer took over the lock"):
        place.apply(replace(theirs, project="sound"), adopted=True)


def test_nothing_is_uploaded_into_a_folder_that_another_project_took_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found the name free. What the second one uploads would lie among the first one's code, and go with it."""
    mine = ours(place, "project")
    plan = place.plan(mine)
    theirs = replace(mine, project="vision").owner
    plain = Writer.keep_owner

    def after_them(writer: Writer, owner: Owner, *, once: bool) -> None:
        plain(writer, theirs, once=True)
        plain(writer, owner, once=once)

    monkeypatch.setattr(Writer, "keep_owner", after_them)
    with pytest.raises(UserError, match=r"became another project's.*project 'vision' with the same bucket and prefix"):
        apply(place.account, mine, plan)
    contents = place.outside.client("s3").list_objects_v2(Bucket=place.bucket)["Contents"]
    assert [f"s3://{place.bucket}/{one['Key']}" for one in contents] == [theirs.uri(NAME)]
    assert place.deployed() is None


def test_rules_and_schedules_without_a_pipeline_are_left_alone(place: Place, theirs: Desired) -> None:
    place.outside.client("sagemaker").delete_pipeline(PipelineName=NAME)
    mine, before = ours(place, "prefix"), place.state()
    refusal = place.plan(mine).refusal
    assert refusal is not None and "schedules." in refusal
    with pytest.raises(UserError, match="--foreign"):
        remains(place.account, NAME, mine.owner)
    assert place.state() == before
    place.apply(theirs)
    assert place.plan(theirs).is_empty


def test_a_pipeline_without_owner_tag_is_ours_by_its_record(place: Place, theirs: Desired) -> None:
    there = place.deployed()
    assert there is not None
    place.outside.client("sagemaker").delete_tags(ResourceArn=there.arn, TagKeys=[OWNER])
    key = theirs.owner.uri(NAME).removeprefix(f"s3://{place.bucket}/")
    place.outside.client("s3").delete_object(Bucket=place.bucket, Key=key)
    assert "an unknown owner" in (place.plan(ours(place, "prefix")).refusal or "")
    changed = replace(theirs, description="Something else.")
    assert place.plan(changed).refusal is None
    place.apply(changed)
    again = place.deployed()
    assert again is not None and again.tags[OWNER] == theirs.owner.tag


def test_objects_recreated_during_the_question_are_not_destroyed(place: Place, theirs: Desired) -> None:
    shown = remains(place.account, NAME, theirs.owner)
    destroy(place.account, shown)
    mine = replace(ours(place, "prefix"), triggers=(place.schedule(),))
    place.apply(mine)
    with pytest.raises(UserError, match="changed since it was looked at"):
        destroy(place.account, shown)
    assert place.plan(mine).is_empty


def test_uploads_of_another_project_are_not_destroyed_in_a_folder_that_was_free(place: Place) -> None:
    """They came between the look at the owner and the look at the objects: what was shown are theirs."""
    mine = ours(place, "project")
    theirs = replace(mine, project="vision").owner
    writer = Writer(place.account, NAME, mine.root)
    writer.keep_definition(mine.text)
    shown = remains(place.account, NAME, mine.owner)
    assert shown.records
    writer.keep_owner(theirs, once=True)
    with pytest.raises(UserError, match=r"belongs to project 'vision'.*; nothing was deleted"):
        destroy(place.account, shown)
    contents = place.outside.client("s3").list_objects_v2(Bucket=place.bucket)["Contents"]
    assert {*shown.records, theirs.uri(NAME)} <= {f"s3://{place.bucket}/{one['Key']}" for one in contents}


def test_a_long_owner_fits_a_tag() -> None:
    root = f"s3://bucket/{'a' * 300}"
    one, other = Owner(root, "vision").tag, Owner(root, "sound").tag
    assert len(one) == MAX_TAG_CHARACTERS and one != other
