from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.formatting import moment_with_zone
from drivetrain.deploying.plan import Origin, Terms, lines, read_plan
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED, applied_uri, read_pipeline
from drivetrain.targets.sagemaker.deploy.planning.consequences import consequences, findings
from drivetrain.targets.sagemaker.deploy.planning.drift import Drift
from drivetrain.targets.sagemaker.deploy.planning.forecast import forecast
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.deploy.wire import wire_text
from drivetrain.targets.sagemaker.document.difference.difference import Change, differences
from drivetrain.triggers.resource_names import resource_name
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition, processing


@pytest.mark.slow
def test_the_refusal_says_who_wrote_last_and_when(place: Place) -> None:
    place.apply(wanted := place.wanted(triggers=(place.schedule(),)))
    place.edit(Parameters=[])
    there = place.deployed()
    assert there is not None and there.modified is not None
    when = moment_with_zone(there.modified)
    for who, told in (("ana", f" (last written by ana at {when})"), (None, f" (last written at {when})")):
        refusal = str(make_plan(place.account, wanted, replace(there, modified_by=who)).refusal)
        assert f"was edited since the last apply{told}, and applying would undo it" in refusal
    unknown = make_plan(place.account, wanted, replace(there, modified_by=None, modified=None))
    assert "was edited since the last apply, and" in str(unknown.refusal)
    # Whoever disabled the schedule is not the one who wrote the pipeline last.
    place.apply(wanted, discarded=["all"])
    place.turn(State="DISABLED")
    told = place.plan(wanted)
    assert "last written" not in str(told.refusal) and "was edited since the last apply, and" in str(told.refusal)


@pytest.mark.parametrize(
    ("context", "who"),
    [
        ({"UserProfileName": "ana", "IamIdentity": {"Arn": "arn:aws:sts::1:assumed-role/studio/SageMaker"}}, "ana"),
        ({"IamIdentity": {"Arn": "arn:aws:sts::1:assumed-role/ci/apply"}}, "arn:aws:sts::1:assumed-role/ci/apply"),
        ({}, None),
        (None, None),
    ],
)
def test_who_wrote_last_is_read(place: Place, monkeypatch: pytest.MonkeyPatch, context: Any, who: str | None) -> None:
    said = {"PipelineArn": "arn", "RoleArn": "role", "LastModifiedTime": datetime(2026, 11, 20, tzinfo=UTC)}
    said |= {} if context is None else {"LastModifiedBy": context}
    monkeypatch.setattr(place.account, "find", lambda *names, **arguments: said)
    there = read_pipeline(place.account, NAME)
    assert there is not None and (there.modified_by, there.modified) == (who, 1795132800.0)


def test_changes_are_described_by_name(place: Place) -> None:
    place.apply(place.wanted(triggers=(place.rule(), place.schedule())))
    changed = place.wanted(
        definition=definition("ml.m5.4xlarge", rows="20"),
        max_parallel=3,
        tags={"team": "speech"},
        triggers=(place.schedule("rate(2 days)"),),
    )
    plan = place.plan(changed)
    assert read_plan(plan.text(), "plan.json") == plan
    told = "\n".join(lines(plan))
    for part in (
        "~ pipeline 'nightly' in account",
        "train: instance ml.m5.large -> ml.m5.4xlarge",
        "parallel steps: 50 -> 3",
        "tag team: vision -> speech",
        f"~ schedule {resource_name(NAME, 'daily')!r}",
        "    expression rate(1 day) -> rate(2 days)",
        "- rule 'nightly_approved'",
        "+ 1 objects in the bucket",
    ):
        assert part in told, told


def test_plans_hold_and_show_no_secret(place: Place) -> None:
    def with_secret(value: str) -> dict[str, Any]:
        read = definition()
        arguments = read["Steps"][0]["Arguments"]
        arguments["Environment"] = {"API_TOKEN": value}
        arguments["AppSpecification"]["ContainerArguments"] = [
            f"--password={value}",
            "--api-key",
            value,
        ]
        read["Parameters"].append({"Name": "ApiToken", "Type": "String", "DefaultValue": value})
        return read

    place.apply(place.wanted(definition=with_secret("canary-one")))
    edited = with_secret("canary-two")
    place.edit(Steps=edited["Steps"], Parameters=edited["Parameters"])
    plan = place.plan(place.wanted(definition=with_secret("canary-three")))
    assert len(plan.overwritten) == 4
    for text in (plan.text(), "\n".join(lines(plan)), str(plan.refusal)):
        assert "canary" not in text


def test_the_default_of_a_new_secret_parameter_is_not_kept(place: Place) -> None:
    place.apply(place.wanted())
    more = definition()
    more["Parameters"].append({"Name": "ApiToken", "Type": "String", "DefaultValue": "canary-one"})
    plan = place.plan(place.wanted(definition=more))
    [change] = [change for change in plan.changes if change.place == "parameters.ApiToken"]
    assert change.new["Type"] == "String" and change.new["DefaultValue"] == "***"
    assert "canary" not in plan.text()


def test_a_lost_record_is_reported_with_what_to_do(place: Place) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    place.edit(Parameters=[])
    uri = applied_uri(wanted.root, NAME, wanted.sha256)
    key = uri.removeprefix(f"s3://{place.bucket}/")
    s3 = place.outside.client("s3")
    s3.put_object(Bucket=place.bucket, Key=key, Body=b"{}")
    for altered in (b"{}", b"\xff\xfe", None):
        if altered is None:
            s3.delete_object(Bucket=place.bucket, Key=key)
        else:
            s3.put_object(Bucket=place.bucket, Key=key, Body=altered)
        refusal = place.plan(wanted).refusal
        assert refusal is not None and refusal.count("parameters.MinAccuracy") == 1
        assert ("is not in" if altered is None else "was altered") in refusal
        assert f"drivetrain pull {NAME} --adopt" in refusal and "--discard" in refusal
    assert "undone by applying" in "\n".join(lines(place.plan(wanted)))
    # What is there taken into the code, or given up: both are ways on.
    there = place.deployed()
    assert there is not None
    assert place.plan(replace(wanted, definition=there.definition)).refusal is None
    place.apply(wanted, discarded=["parameters"])
    assert place.plan(wanted).is_empty and place.plan(wanted).lost is None


@pytest.mark.slow
def test_another_prefix_is_no_dead_end(place: Place) -> None:
    wanted = place.wanted(triggers=(place.schedule(),))
    place.apply(wanted)
    moved = replace(wanted, root=f"s3://{place.bucket}/elsewhere")
    refusal = place.plan(moved).refusal
    assert refusal is not None and wanted.root in refusal and "--adopt" in refusal
    assert place.plan(moved, adopted=True).refusal is None
    other = replace(moved, description="Something else.")
    refusal = place.plan(other, adopted=True).refusal
    assert refusal is not None and "pipeline.Description" in refusal and wanted.root in refusal
    place.apply(other, discarded=["pipeline"])
    assert place.plan(other).is_empty


def test_a_missing_bucket_is_reported(place: Place) -> None:
    wanted = place.wanted()
    asset = wanted.assets[0]
    moved = replace(wanted, assets=(replace(asset, uri=asset.uri.replace(place.bucket, "no-such-bucket")),))
    with pytest.raises(UserError, match=r"There is no bucket .*deployment\.targets\.sagemaker\.bucket=NAME"):
        place.plan(moved)


def test_an_outdated_tag_is_updated(place: Place) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    client = place.outside.client("sagemaker")
    other = place.wanted(definition=definition(rows="99"))
    place.apply(other)
    client.add_tags(ResourceArn=wanted.arn, Tags=[{"Key": APPLIED, "Value": wanted.sha256}])
    plan = place.plan(other)
    [change] = plan.changes
    assert plan.action == "update" and (change.old, change.new) == (wanted.sha256, other.sha256)
    assert "the record of what was applied last is brought up to date" in "\n".join(lines(plan))


def cached(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """Step -> None where it can be taken from the cache, else why not."""
    found = forecast(old, new, differences(old, new) if old is not None else ())
    return {step.step: None if step.cached else step.why for step in found}


def test_steps_expected_from_the_cache() -> None:
    base = definition()
    assert cached(None, base) == {"prepare": ("it is new",), "train": ("it is new",)}
    assert cached(base, base) == {"prepare": None, "train": None}
    # The instance type is no part of the key.
    assert cached(base, definition("ml.m5.4xlarge")) == {"prepare": None, "train": None}
    changed = cached(base, definition(rows="20"))
    assert changed["prepare"] == ("--rows 10 -> 20",) and changed["train"] == ("prepare runs again",)
    off = definition()
    off["Steps"][1]["CacheConfig"] = {"Enabled": False}
    assert cached(base, off) == {"prepare": None}


def test_a_parameter_or_the_execution_in_the_key_counts() -> None:
    def using(value: Any, default: float = 0.9) -> dict[str, Any]:
        read = definition()
        read["Parameters"][0]["DefaultValue"] = default
        read["Steps"][0]["Arguments"]["Environment"] = {"X": value}
        return read

    parameter = {"Get": "Parameters.MinAccuracy"}
    assert cached(using(parameter), using(parameter))["prepare"] is None
    why = cached(using(parameter), using(parameter, 0.5))["prepare"]
    assert why is not None and "0.9 -> 0.5" in why[0]
    execution = {"Get": "Execution.PipelineExecutionId"}
    assert cached(using(execution), using(execution))["prepare"] == ("its arguments name the execution",)


def test_steps_are_listed_after_their_inputs() -> None:
    old, new = definition(), definition(rows="20")
    new["Steps"].reverse()
    assert cached(old, new)["train"] == ("prepare runs again",)


def test_default_quotas_are_noted(place: Place) -> None:
    training = {
        "Name": "big",
        "Type": "Training",
        "Arguments": {
            "ResourceConfig": {
                "InstanceType": "ml.p4d.24xlarge",
                "InstanceCount": 32,
                "KeepAlivePeriodInSeconds": 7200,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 1_000_000},
        },
    }
    read = {**definition(), "Steps": [training, processing("prepare")]}
    notes = place.plan(place.wanted(definition=read)).notes
    assert len(notes) == 3 and all(note.startswith("big: ") and "quota" in note for note in notes)


def test_the_wire_text_keeps_how_numbers_were_written() -> None:
    text = '{"a":1E5,"b":[0.10,1.0,12345678901234567890],"c":{},"d":[],"e":"\\u00e9"}'
    read: Any = json_text.parse(text, "test")
    assert wire_text(read) == text
    plain = {"a": [1.5, True, None, "é"], "b": {}}
    assert wire_text(plain) == json.dumps(plain, separators=(",", ":"))


def test_required_role_permissions_are_listed(place: Place) -> None:
    first = place.wanted()
    jobs = f"arn:aws:iam::{place.outside.number}:role/jobs"

    def reading(uri: str) -> dict[str, Any]:
        read = definition()
        arguments = read["Steps"][0]["Arguments"]
        arguments["RoleArn"] = jobs
        arguments["ProcessingInputs"] = [
            {"InputName": "raw", "S3Input": {"S3Uri": uri, "LocalPath": "/opt/ml/processing/input/raw"}}
        ]
        return read

    old, new = reading("s3://old-data/raw/"), place.wanted(definition=reading("s3://new-data/raw/"))
    said = consequences(place.account, new, {**old, "Metadata": new.definition["Metadata"]}, first.role)
    assert list(said["roles"]) == [jobs]
    assert any("new-data" in resource for _, resource, _ in said["roles"][jobs]["added"])
    assert any("old-data" in resource for _, resource, _ in said["roles"][jobs]["removed"])
    assert not [resource for _, resource, _ in said["roles"][jobs]["added"] if "old-data" in resource]
    same = consequences(place.account, new, new.definition, new.role)
    assert same["roles"] == {}
    told = "\n".join(findings((), said, None, is_new=False))
    assert "+ role jobs: s3:GetObject on arn:aws:s3:::new-data/raw/" in told and "- role jobs: s3:" in told
    assert consequences(place.account, new, None, None)["roles"][jobs]["removed"] == []


@pytest.mark.parametrize(
    ("origin", "given"),
    [
        (None, NAME),
        (Origin(target="my flows/nightly.py", on="sagemaker"), "'my flows/nightly.py'"),
        (
            Origin(target="retraining", config="live.yaml", set=("epochs=3", "a=b c")),
            "retraining -c live.yaml --set epochs=3 --set 'a=b c'",
        ),
        (Origin(definition="theirs.json", name="nightly"), "-d theirs.json --name nightly"),
    ],
)
def test_advised_commands_are_valid(origin: Origin | None, given: str) -> None:
    edited = Drift(overwritten=(Change(("parameters", "Rows"), 1, 2),))
    terms = Terms(origin=origin)
    assert f"Keep the edits: drivetrain pull {given}, or give them up" in str(edited.refusal(NAME, terms))
    assert f"drivetrain pull {given} --adopt (" in str(replace(edited, foreign=True).refusal(NAME, terms))


def test_no_password_and_no_control_character_of_a_property_is_kept_or_shown(place: Place) -> None:
    place.apply(place.wanted())
    arn = place.wanted().arn
    place.describe("postgres://reader:canary-1@host/x \x1b[2J")
    tags = [{"Key": "team", "Value": "https://me:canary-2@host"}]
    place.outside.client("sagemaker").add_tags(ResourceArn=arn, Tags=tags)
    plan = place.plan(place.wanted(tags={"team": "vision", "api_token": "canary-3"}), discarded=["all"])
    said = "\n".join(lines(plan))
    found = {change.place for change in plan.changes if change.kind == "property"}
    assert found == {"description", "tag team", "tag api_token"}
    for kept in (json.dumps(plan.to_json()), said):
        assert "canary" not in kept and "postgres://reader:***@host/x" in kept
    assert "\x1b" not in said
