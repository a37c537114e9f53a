"""What is edited in the account beside a pipeline's definition, through the command line: schedules and names."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.sagemaker_service.command_line import CommandLine


@pytest.mark.slow
def test_a_schedule_disabled_in_the_console_stays_disabled_until_discarded(drivetrain: CommandLine) -> None:
    drivetrain("apply", "nightly.py", "--yes")
    scheduler = drivetrain.account.client("scheduler")
    [name] = [item["Name"] for item in scheduler.list_schedules()["Schedules"]]
    said = scheduler.get_schedule(Name=name)
    kept = ("ScheduleExpression", "ScheduleExpressionTimezone", "FlexibleTimeWindow", "Target", "Description")
    scheduler.update_schedule(Name=name, State="DISABLED", **{key: said[key] for key in kept})
    client = drivetrain.account.client("sagemaker")
    client.update_pipeline(PipelineName="nightly", PipelineDisplayName="nightly-training")
    edited = drivetrain.left()

    text = drivetrain("plan", "nightly.py", "--out", "plan.json")
    state, shown = f"schedules.{name}.State", "pipeline.DisplayName"
    assert f"schedule '{name}': state ENABLED -> DISABLED  ({state})" in text
    assert f"display name nightly -> nightly-training  ({shown})" in text and "Apply will refuse this." in text
    drivetrain("apply", "nightly.py", "--yes", code=2)
    assert state in drivetrain.err and "write it in the code" in drivetrain.err
    drivetrain("apply", "--plan", "plan.json", code=2)
    assert state in drivetrain.err
    # A file that keeps quiet about it changes nothing.
    plan = drivetrain.folder / "plan.json"
    assert '"overwritten": [' in plan.read_text()
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "overwritten": [], "refusal": None}))
    drivetrain("apply", "--plan", "plan.json", code=2)
    assert state in drivetrain.err
    assert drivetrain.left() == edited

    text = drivetrain("pull", "nightly.py")
    assert f"schedule '{name}': state ENABLED -> DISABLED" in text and "nightly-training" in text
    assert len(drivetrain.json("pull", "nightly.py")["beside"]) == 2

    drivetrain("apply", "nightly.py", "--yes", "--discard", state, "--discard", shown)
    assert scheduler.get_schedule(Name=name)["State"] == "ENABLED"
    assert drivetrain.json("plan", "nightly.py")["action"] == "none"

    # Turned to something else it is not deleted with the pipeline, and that is said.
    queue = f"arn:aws:sqs:us-east-1:{drivetrain.account.number}:theirs"
    other = {"Arn": queue, "RoleArn": said["Target"]["RoleArn"]}
    scheduler.update_schedule(Name=name, **{**{key: said[key] for key in kept}, "Target": other})
    text = drivetrain("destroy", "nightly.py", "--yes")
    assert f"note: schedule '{name}' stays: it was changed to start {queue}" in text
    left = drivetrain.left()
    assert list(left["schedules"]) == [name] and not left["pipelines"] and not left["rules"] and not left["objects"]
    assert "stays" in drivetrain("destroy", "nightly.py", "--yes")
