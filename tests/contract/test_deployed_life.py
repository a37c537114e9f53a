"""The whole life of a pipeline on SageMaker, through the command line alone, against a server on this machine."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures.sagemaker_service.command_line import NOTHING, CommandLine
from tests.fixtures.sagemaker_service.playing import Playing


def instance_of(definition: dict[str, Any]) -> dict[str, Any]:
    return definition["Steps"][0]["Arguments"]["ProcessingResources"]["ClusterConfig"]


@pytest.mark.slow
def test_the_whole_life(drivetrain: CommandLine) -> None:
    # A new pipeline: planned, kept, applied from the file.
    text = drivetrain("plan", "nightly.py", "--out", "plan.json")
    assert "+ pipeline 'nightly'" in text and "3 steps, 2 parameters" in text
    assert "+ schedule" in text and "+ rule" in text and "objects in the bucket" in text
    assert drivetrain.left() == NOTHING
    drivetrain("apply", "--plan", "plan.json")
    made = drivetrain.left()
    assert [len(names) for names in made.values()][:3] == [1, 1, 1] and made["objects"]
    first = drivetrain.definition()

    # Planned again there is nothing to do, and applying does nothing: the definition stays the same bytes.
    assert drivetrain("plan", "nightly.py", "--exit-code").startswith("Nothing to do: pipeline 'nightly'")
    assert drivetrain.json("plan", "nightly.py")["action"] == "none"
    drivetrain("apply", "nightly.py", "--yes")
    assert drivetrain.definition() == first and drivetrain.left() == made
    versions = drivetrain.account.client("sagemaker").list_pipeline_versions(PipelineName="nightly")
    assert len(versions["PipelineVersionSummaries"]) == 1

    # Somebody edits it in Studio: applying is refused, also with the plan from before.
    drivetrain.edit(lambda read: (instance_of(read).update(InstanceType="ml.m5.4xlarge"), read.update(New={"a": 1.0})))
    edited = drivetrain.definition()
    changed = ("--set", "rows=20", "--set", "every=rate(12 hours)")
    text = drivetrain("plan", "nightly.py", *changed)
    assert "Edited since the last apply, and undone by applying:" in text and "Apply will refuse this." in text
    drivetrain("apply", "nightly.py", "--yes", *changed, code=2)
    assert (
        "was edited since the last apply" in drivetrain.err
        and "drivetrain pull nightly.py --set rows" in drivetrain.err
    )
    drivetrain("apply", "--plan", "plan.json", code=2)
    assert "The plan is stale" in drivetrain.err
    assert drivetrain.definition() == edited

    # Pulled, the edit is a file beside the pipeline, and a setting is named that says the same.
    text = drivetrain("pull", "nightly.py")
    assert "prepare: instance ml.m5.large -> ml.m5.4xlarge" in text and "instance=ml.m5.4xlarge" in text
    assert "nightly.studio.yaml" in text
    patch = (drivetrain.folder / "nightly.studio.yaml").read_text()
    assert "ml.m5.4xlarge" in patch and "New" in patch
    assert "Nothing to pull" in drivetrain("pull", "nightly.py")

    # Now code and edit are applied together.
    text = drivetrain("plan", "nightly.py", *changed)
    assert "in the code already" in text and "rows 10 -> 20" in text and "~ schedule" in text
    assert "refuse" not in text
    drivetrain("apply", "nightly.py", "--yes", *changed)
    both = json.loads(drivetrain.definition())
    assert instance_of(both)["InstanceType"] == "ml.m5.4xlarge" and both["New"] == {"a": 1.0}
    assert "20" in both["Steps"][0]["Arguments"]["AppSpecification"]["ContainerArguments"]
    assert drivetrain.json("plan", "nightly.py", *changed)["action"] == "none"

    # It is executed, watched, and what it took is told.
    on = ("--on", "sagemaker", "-p", "nightly")
    started = drivetrain.json("start", "nightly.py", "--param", "MinAccuracy=0.5", "--name", "by-hand")
    playing = Playing(drivetrain.account.backend(), started["arn"])
    playing.begin("prepare", "Processing")
    playing.end("prepare", seconds=75)
    text = drivetrain("runs", "show", "-p", "nightly", "--region", "us-east-1")
    assert "nightly" in text and "✓ prepare" in text and "1 min 15 s" in text
    drivetrain("destroy", "nightly.py", "--yes", code=2)
    assert "is executing" in drivetrain.err
    drivetrain("runs", "stop", started["execution"], *on)
    playing.conclude("Stopped")
    assert "at most" in drivetrain("plan", "nightly.py", "--set", "rows=30")
    assert "stopped" in drivetrain("runs", "list", *on).lower()
    drivetrain("runs", "show", "--follow", *on, code=130)

    # The next plan counts with the time that one that succeeded took.
    began = datetime(2026, 1, 1, tzinfo=UTC)
    again = Playing(drivetrain.account.backend(), drivetrain.json("start", "nightly.py")["arn"])
    again.begin("prepare", "Processing", ProcessingStartTime=began, ProcessingEndTime=began + timedelta(minutes=7))
    again.end("prepare", seconds=500)
    again.conclude("Succeeded")
    cost = drivetrain.json("plan", "nightly.py", "--set", "rows=30")["cost"]
    assert [(step["seconds"], step["measured"]) for step in cost["steps"] if step["step"] == "prepare"] == [(420, True)]

    # What starts it by itself goes with the declaration.
    assert "- schedule" in drivetrain("plan", "nightly.py", *changed, "--set", "by_itself=false")
    drivetrain("apply", "nightly.py", "--yes", *changed, "--set", "by_itself=false")
    assert drivetrain.left()["rules"] == {} and drivetrain.left()["schedules"] == {}
    drivetrain("apply", "nightly.py", "--yes", *changed)

    # Destroyed, it leaves nothing; destroyed again, there is nothing to do.
    drivetrain("destroy", "nightly.py", "--yes")
    assert drivetrain.left() == NOTHING
    assert drivetrain("destroy", "nightly.py", "--yes").startswith("Nothing to do")


@pytest.mark.slow
def test_conflicts_are_resolved_by_choice(drivetrain: CommandLine) -> None:
    drivetrain("apply", "nightly.py", "--yes")
    drivetrain.edit(lambda read: read["Parameters"][0].update(DefaultValue=0.5))
    changed = ("--set", "min_accuracy=0.7")
    place = "parameters.MinAccuracy.DefaultValue"
    text = drivetrain("pull", "nightly.py", *changed, code=1)
    assert place in text and "the code has 0.7, Studio has 0.5" in text
    assert not (drivetrain.folder / "nightly.studio.yaml").exists()
    drivetrain("pull", "nightly.py", *changed, "--take-code", place, "--take-studio", place, code=2)
    assert "Choose one" in drivetrain.err
    # The code's value: nothing is to be pulled, and applying must name what it gives up.
    drivetrain("pull", "nightly.py", *changed, "--take-code", place)
    drivetrain("apply", "nightly.py", "--yes", *changed, code=2)
    drivetrain("apply", "nightly.py", "--yes", *changed, "--discard", place)
    assert json.loads(drivetrain.definition())["Parameters"][0]["DefaultValue"] == 0.7
    # Studio's value.
    drivetrain.edit(lambda read: read["Parameters"][0].update(DefaultValue=0.5))
    drivetrain("pull", "nightly.py", "--set", "min_accuracy=0.8", "--take-studio", place)
    drivetrain("apply", "nightly.py", "--yes", "--set", "min_accuracy=0.8")
    assert json.loads(drivetrain.definition())["Parameters"][0]["DefaultValue"] == 0.5


@pytest.mark.slow
def test_a_foreign_definition_is_deployed_and_a_foreign_pipeline_adopted(drivetrain: CommandLine) -> None:
    steps = [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}, "Unknown": [1.0, 2]}]
    file = drivetrain.folder / "theirs.json"
    file.write_text(json.dumps({"Version": "2020-12-01", "Steps": steps}))
    place = json.loads((drivetrain.folder / "nightly.yaml").read_text())["deployment"]["targets"]["sagemaker"]
    given = [f"--set=deployment.targets.sagemaker.{name}={place[name]}" for name in ("bucket", "role")]
    drivetrain("apply", "-d", file, "--yes", *given)
    client = drivetrain.account.client("sagemaker")
    assert json.loads(client.describe_pipeline(PipelineName="theirs")["PipelineDefinition"])["Steps"] == steps
    assert drivetrain.json("plan", "-d", file, *given)["action"] == "none"
    edited = {"Version": "2020-12-01", "Steps": [{**steps[0], "DisplayName": "Stop here"}]}
    client.update_pipeline(PipelineName="theirs", PipelineDefinition=json.dumps(edited))
    file.write_text(json.dumps({"Version": "2020-12-01", "Steps": [{**steps[0], "Description": "Why not."}]}))
    drivetrain("apply", "-d", file, "--yes", *given, code=2)
    assert f"drivetrain pull -d {file} --set deployment" in drivetrain.err
    assert f"Wrote {file}" in drivetrain("pull", "-d", file, *given)
    drivetrain("apply", "-d", file, "--yes", *given)
    both = json.loads(client.describe_pipeline(PipelineName="theirs")["PipelineDefinition"])["Steps"][0]
    assert both == {**steps[0], "DisplayName": "Stop here", "Description": "Why not."}
    drivetrain("destroy", "theirs", "--yes", *given)

    theirs = drivetrain.json("plan", "nightly.py")  # the code's own, made by somebody else by hand
    assert theirs["action"] == "create"
    drivetrain("compile", "nightly.py", "-o", "compiled.json", "--home", drivetrain.folder / "home")
    definition = json.loads((drivetrain.folder / "compiled.json").read_text())
    instance_of(definition)["InstanceType"] = "ml.c5.xlarge"
    client.create_pipeline(
        PipelineName="nightly",
        PipelineDefinition=json.dumps(definition),
        RoleArn=place["role"],
        ClientRequestToken="t" * 32,
    )
    drivetrain("apply", "nightly.py", "--yes", code=2)
    assert "was not made by `drivetrain apply`" in drivetrain.err
    drivetrain("pull", "nightly.py", code=2)
    assert "--adopt" in drivetrain.err
    drivetrain("pull", "nightly.py", "--adopt")
    drivetrain("apply", "nightly.py", "--yes")
    assert instance_of(json.loads(drivetrain.definition()))["InstanceType"] == "ml.c5.xlarge"
    assert drivetrain.json("plan", "nightly.py")["action"] == "none"


@pytest.mark.slow
def test_steps_of_studio_follow_code_settings_and_role(drivetrain: CommandLine) -> None:
    """A copy and a renamed step, through the command line: plan, apply and pull go on after each change."""

    def edited(read: dict[str, Any]) -> None:
        copied = json.loads(json.dumps(read["Steps"][0]))
        copied["Name"] = "prepare-more"
        instance_of({"Steps": [copied]})["InstanceType"] = "ml.m5.xlarge"
        renamed = json.loads(json.dumps(read["Steps"]).replace("Steps.evaluate.", "Steps.score."))
        renamed[1]["Name"] = "score"
        read["Steps"] = [*renamed, copied]

    drivetrain("apply", "nightly.py", "--yes")
    drivetrain.edit(edited)
    drivetrain("pull", "nightly.py")
    assert "like: prepare" in (drivetrain.folder / "nightly.studio.yaml").read_text()
    drivetrain("apply", "nightly.py", "--yes")
    code = drivetrain.folder / "nightly.py"
    role = f"arn:aws:iam::{drivetrain.account.number}:role/others"
    code.write_text(code.read_text() + "\n# edited\n")
    for given in ((), ("--set", "rows=20"), ("--set", f"deployment.targets.sagemaker.role={role}")):
        text = drivetrain("plan", "nightly.py", *given)
        assert "refuse" not in text
        drivetrain("apply", "nightly.py", "--yes", *given)
        assert "Nothing to pull" in drivetrain("pull", "nightly.py", *given)
        prepare, score, _, more = json.loads(drivetrain.definition())["Steps"]
        words = [step["Arguments"]["AppSpecification"]["ContainerArguments"] for step in (prepare, more)]
        assert score["Name"] == "score" and words[0] == words[1]
    assert role == more["Arguments"]["RoleArn"] == score["Arguments"]["RoleArn"]
