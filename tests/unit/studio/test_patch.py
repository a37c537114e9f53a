"""The patch file: it gives back what was merged, it is readable, and it says when an edit no longer fits."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.studio import patch as patches
from drivetrain.studio import patch_text
from drivetrain.studio.merge import merge
from drivetrain.studio.patch import Patch
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change
from drivetrain.targets.sagemaker.document.difference.change_words import describe_all
from drivetrain.targets.sagemaker.document.difference.difference import differences
from tests.fixtures.changed_definitions import JSON, RETRAINING, altered, versions

Definition = dict[str, Any]


@pytest.mark.slow
@given(versions(3))
@settings(deadline=None, max_examples=70)
def test_a_patch_reproduces_the_merge(three: tuple[Definition, Definition, Definition]) -> None:
    applied, code, deployed = three
    merged = merge(applied, code, deployed)
    written = Patch("retraining", merged.edits)
    text = written.text()
    assert written.text() == text
    text.encode("utf-8")
    read = patches.parse(text)
    assert (read.pipeline, read.edits) == ("retraining", merged.edits)
    assert read.text() == text
    assert read.apply(code) == merged.definition
    assert read.apply(merged.definition) == merged.definition


@given(versions(2))
@settings(deadline=None, max_examples=50)
def test_a_later_pull_takes_in_the_patch(two: tuple[Definition, Definition]) -> None:
    code, reached = two
    assert differences(patches.between("p", code, reached).apply(code), reached) == ()


@given(JSON)
@settings(deadline=None, max_examples=70)
def test_every_value_survives_the_text(value: Any) -> None:
    if patch_text.fits(value):
        text = "\n".join(
            [
                "x:" + ("" if line.startswith(" ") else " ") + line if n == 0 else line
                for n, line in enumerate(patch_text.lines(value, "  "))
            ]
        )
        assert repr(patch_text.read(text, "text")) == repr({"x": value})
    assert repr(patch_text.from_json_text(patch_text.as_json_text(value), "text")) == repr(value)


def test_the_file_reads_well(tmp_path: Path) -> None:
    def in_studio(steps: dict[str, Any]) -> None:
        steps["train"]["Arguments"]["ResourceConfig"]["InstanceType"] = "ml.g5.xlarge"
        steps["train"]["Arguments"]["HyperParameters"]["epochs"] = "30"
        steps["train"]["Arguments"]["HyperParameters"].pop("learning_rate")
        steps["gate"]["Arguments"]["Conditions"][0]["RightValue"] = 0.95
        steps["gate"]["Arguments"]["IfSteps"].append(
            {"Name": "mail", "Type": "Lambda", "Arguments": {"to": ["a b", "on", 1.0], "empty": {}}, "DependsOn": []}
        )

    patch = Patch("retraining", merge(RETRAINING, RETRAINING, altered(in_studio)).edits)
    file = tmp_path / "retraining.studio.yaml"
    patch.write(file)
    once = file.read_bytes()
    patch.write(file)
    assert file.read_bytes() == once
    assert file.name == "retraining.studio.yaml"
    text = once.decode()
    assert re.fullmatch(r"(?:#.*\n)+", text.partition("pipeline:")[0])
    assert (
        text.partition("pipeline:")[2]
        == """ retraining
edits:
# train: instance ml.m5.xlarge -> ml.g5.xlarge
- place: steps.train.Arguments.ResourceConfig.InstanceType
  was: ml.m5.xlarge
  now: ml.g5.xlarge
# train: epochs 20 -> 30
- place: steps.train.Arguments.HyperParameters.epochs
  was: "20"
  now: "30"
# train: learning_rate removed (was 0.003)
- place: steps.train.Arguments.HyperParameters.learning_rate
  was: "0.003"
# gate: threshold of evaluate.accuracy.value 0.9 -> 0.95
- place: 'steps.gate.Arguments.Conditions["evaluate.accuracy.value"].RightValue'
  was: 0.9
  now: 0.95
# mail added (Lambda)
- place: steps.mail
  now:
    Name: mail
    Type: Lambda
    Arguments:
      to:
      - "a b"
      - "on"
      - 1.0
      empty: {}
    DependsOn: []
- place: branches.mail
  now:
    step: gate
    branch: IfSteps
"""
    )
    read = patches.read(file)
    assert read.edits == patch.edits
    # Every other reader of YAML sees the same.
    assert yaml.safe_load(text)["edits"][4]["now"]["Arguments"] == {"to": ["a b", "on", 1.0], "empty": {}}


def test_an_outdated_edit_shows_the_current_value() -> None:
    edits = merge(
        RETRAINING, RETRAINING, altered(lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="30"))
    ).edits
    patch = Patch("retraining", edits, "retraining.studio.yaml")
    with pytest.raises(UserError) as told:
        patch.apply(altered(lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="40")))
    assert str(told.value) == (
        "retraining.studio.yaml: the edit at steps.train.Arguments.HyperParameters.epochs does not fit the code any "
        "more: it expects 20, and the code now has 40. Change its `was` to keep the edit, or "
        "give it up: drivetrain pull retraining --give-up steps.train.Arguments.HyperParameters.epochs"
    )
    with pytest.raises(UserError, match=r"epochs does not fit the code any more\. .*steps.train is not there\."):
        patch.apply(altered(lambda s: s[""]["Steps"].remove(s["train"])))
    has_it = altered(lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="30"))
    assert patch.apply(has_it) is not RETRAINING and patch.apply(has_it) == has_it


def test_a_step_under_no_condition_is_refused() -> None:
    edits = "- place: branches.train\n  now: {step: prepare, branch: IfSteps}\n"
    patch = patches.parse(f"pipeline: p\nedits:\n{edits}", "p.studio.yaml")
    with pytest.raises(UserError, match=r"p\.studio\.yaml: .*step train .* branch of 'prepare', which is no condition"):
        patch.apply(RETRAINING)


@pytest.mark.slow_cases("text22-anchors and aliases are not allowed")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a patch has `pipeline: NAME`"),
        ("pipeline: p", "edits is null"),
        ("pipeline: p\nedits: {}", r"edits is \{\}. Allowed: a list"),
        ("pipeline: p\nedits: []\nmore: 1", "'more' is not known"),
        ("pipeline: p\nedits: [1]", r"edits\[0\] is 1\. Allowed: place, was and now"),
        ("pipeline: p\nedits: [{place: steps.a}]", r"edits\[0\]: neither was nor now is given"),
        ("pipeline: p\nedits: [{was: 1}]", r"edits\[0\] has no place"),
        ("pipeline: p\nedits: [{place: step.a, was: 1}]", "steps"),
        ("pipeline: p\nedits: [{place: steps, was: 1}]", "place 'steps'"),
        ("pipeline: p\nedits: [{place: 'steps.a[0]', was: 1}]", "is not a place"),
        ("pipeline: p\nedits: [{place: steps.a, now: 1, then: 2}]", "'then' is not known"),
        ("pipeline: p\nedits: [{place: steps.a, now: 1, now-json: '2'}]", "now and now-json are both given"),
        ("pipeline: p\nedits: [{place: steps.a, now-json: '{'}]", "now-json, line 1, column 2: not JSON"),
        ("pipeline: p\nedits: [{place: steps.a, now-json: 1}]", r"now-json is 1\. Allowed: JSON in quotes"),
        ("pipeline: p\nedits: &x [*x]", "anchors and aliases are not allowed"),
        ("pipeline: !!python/object/apply:os.system [id]", "tags are not allowed"),
        ("pipeline: p\npipeline: q", "given twice"),
        ("pipeline: [" + "[" * 100, "nested deeper"),
        ("pipeline: p\nedits: [{place: steps.a, now: " + "9" * 6000 + "}]", "a number of more than 4,300 digits"),
        ("pipeline: \x00", "not YAML"),
        ("pipeline: p\n---\npipeline: q", "line 2: a second document begins"),
        ("? [a]\n: 1", "a list or mapping cannot be a key"),
        ("edits: [" + "1," * 125_000 + "&x 1]", "anchors and aliases are not allowed"),
        ("pipeline: p\nedits: [" + "1.5," * 60_000 + "1]", r"edits\[0\] is 1"),
    ],
)
def test_invalid_patches_are_refused(text: str, said: str) -> None:
    started = process_time()
    with pytest.raises(UserError, match=said):
        patches.parse(text, "p.studio.yaml")
    assert process_time() - started < 5  # 0.5 s on a quiet machine; what grows with each nesting would never end


@given(st.text(max_size=60))
@settings(deadline=None, max_examples=50)
def test_any_patch_text_is_parsed_or_refused(text: str) -> None:
    for given_text in (text, f"pipeline: p\nedits:\n- place: steps.a\n  now: {text}\n"):
        try:
            read = patches.parse(given_text)
        except UserError:
            continue
        assert patches.parse(read.text()).edits == read.edits


def test_a_file_that_is_no_patch_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.studio\.yaml: No such file"):
        patches.read(tmp_path / "none.studio.yaml")
    (tmp_path / "latin.studio.yaml").write_bytes(b"pipeline: \xe9")
    with pytest.raises(UserError, match=r"latin\.studio\.yaml is not UTF-8 \(byte 10\)"):
        patches.read(tmp_path / "latin.studio.yaml")
    (tmp_path / "large.studio.yaml").write_bytes(b"#" * (patches.MAX_BYTES + 1))
    with pytest.raises(UserError, match="too large for a patch"):
        patches.read(tmp_path / "large.studio.yaml")
    many = Patch("p", tuple(Change(("steps", f"s{n}"), ABSENT, {"x": "y" * 1000}) for n in range(300)))
    with pytest.raises(UserError, match="too many to review"):
        many.write(tmp_path / "many.studio.yaml")
    wide = Patch("p", tuple(Change(("steps", f"s{n}"), ABSENT, {"x": "é" * 1000}) for n in range(140)))
    assert len(wide.text()) < patches.MAX_BYTES
    with pytest.raises(UserError, match="too many to review"):
        wide.write(tmp_path / "wide.studio.yaml")
    with pytest.raises(UserError, match="there is no folder"):
        Patch("p").write(tmp_path / "none" / "p.studio.yaml")


def test_edits_that_do_not_fit_can_be_left_out() -> None:
    def in_studio(steps: dict[str, Any]) -> None:
        steps["train"]["Arguments"]["HyperParameters"].update(epochs="30", learning_rate="0.1")

    patch = Patch("retraining", merge(RETRAINING, RETRAINING, altered(in_studio)).edits, "retraining.studio.yaml")
    left_out: list[str] = []
    made = patch.apply(altered(lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="40")), left_out)
    assert made["Steps"][1]["Arguments"]["HyperParameters"] == {
        "epochs": "40",
        "learning_rate": "0.1",
        "seed": {"Get": "Parameters.Seed"},
    }
    [message] = left_out
    assert "epochs does not fit the code any more: it expects 20, and the code now has 40." in message


@pytest.mark.parametrize(
    "in_studio",
    [
        lambda s: s["prepare"]["Arguments"]["Environment"].update(API_TOKEN="canary-1"),
        lambda s: s["stop"]["Arguments"].update(ContainerArguments=["--password", "canary-1"]),
        lambda s: s["stop"]["Arguments"].update(ContainerArguments=["--x", "1", "--x", "1", "--password=canary-1"]),
        lambda s: s["stop"]["Arguments"].update(ContainerArguments=["--x", "1", "--x", "1", "--password", "canary-1"]),
        lambda s: s["prepare"]["Arguments"]["AppSpecification"]["ContainerArguments"].extend(["--token", "canary-1"]),
        lambda s: s["prepare"]["Arguments"]["AppSpecification"].update(
            ContainerArguments=["--token", "canary-1", "--label", "y"]
        ),
        lambda s: s["train"]["RetryPolicies"][0].update(api_token="canary-1"),
        lambda s: s["prepare"]["Arguments"]["Environment"].update(API_TOKEN='{"key": "canary-1"}'),
        lambda s: s["prepare"]["Arguments"]["Environment"].update(INDEX="https://me:canary-1@pypi.example.com/simple"),
        lambda s: s[""]["Parameters"][1].update(Name="ApiToken", DefaultValue="canary-1"),
        lambda s: s[""]["Parameters"].append({"Name": "ApiToken", "Type": "String", "DefaultValue": "canary-1"}),
        lambda s: s["train"]["Arguments"].update(Environment={"DB_PASSWORD": "canary-1"}),
        lambda s: s[""]["Steps"].append({"Name": "x", "Type": "Lambda", "Arguments": {"secret": "canary-1"}}),
    ],
)
def test_a_secret_is_neither_kept_nor_shown(in_studio: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    edits = merge(RETRAINING, RETRAINING, altered(in_studio)).edits
    with pytest.raises(UserError, match="looks like a secret") as told:
        Patch("retraining", edits).write(tmp_path / "retraining.studio.yaml")
    assert not list(tmp_path.iterdir())
    assert "canary" not in "\n".join([str(told.value), *describe_all(edits)])


def test_the_name_of_a_secret_is_no_secret(tmp_path: Path) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:000000000000:secret:db"
    edits = merge(
        RETRAINING, RETRAINING, altered(lambda s: s["prepare"]["Arguments"]["Environment"].update(DB_SECRET=arn))
    ).edits
    Patch("retraining", edits).write(tmp_path / "retraining.studio.yaml")
    assert patches.read(tmp_path / "retraining.studio.yaml").edits == edits


def test_an_expression_under_a_secret_name_is_no_secret(tmp_path: Path) -> None:
    def edited(steps: dict[str, Any]) -> None:
        steps["prepare"]["Arguments"]["Environment"]["DB_SECRET"] = {"Get": "Parameters.SecretName"}

    edits = merge(RETRAINING, RETRAINING, altered(edited)).edits
    Patch("retraining", edits).write(tmp_path / "retraining.studio.yaml")
    assert patches.read(tmp_path / "retraining.studio.yaml").edits == edits


def test_a_secret_in_conflict_is_not_shown() -> None:
    def token(text: str) -> Definition:
        return altered(lambda s: s["prepare"]["Arguments"]["Environment"].update(API_TOKEN=text))

    [conflict] = merge(RETRAINING, token("canary-1"), token("canary-2")).conflicts
    assert "canary" not in json.dumps(conflict.to_json())
    assert "canary" not in str(conflict) and "the code has ***, Studio has ***" in str(conflict)
    [change] = differences(token("canary-1"), token("canary-2"))
    assert describe_all([change]) == ["prepare: environment API_TOKEN changed (***)"]


def test_a_secret_of_the_code_is_not_stored(tmp_path: Path) -> None:
    code = altered(lambda s: s["prepare"]["Arguments"]["Environment"].update(API_TOKEN="canary-1"))
    edits = merge(code, code, altered(lambda s: None)).edits
    assert [(edit.old, edit.new) for edit in edits] == [("canary-1", ABSENT)]
    with pytest.raises(UserError, match="looks like a secret"):
        Patch("retraining", edits).write(tmp_path / "retraining.studio.yaml")
    assert not list(tmp_path.iterdir())
