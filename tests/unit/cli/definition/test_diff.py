"""`diff`, `check` and `import` over files and pipelines, and the edits of Studio in every compile."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.changed_definitions import RETRAINING, altered

PATCH = """pipeline: retraining
edits:
- place: steps.train.Arguments.HyperParameters.epochs
  was: "20"
  now: "30"
"""


def in_studio(steps: dict[str, Any]) -> None:
    steps["train"]["Arguments"]["HyperParameters"]["epochs"] = "30"
    steps["train"]["Arguments"]["ResourceConfig"]["InstanceType"] = "ml.g5.xlarge"


def test_differences_are_lines_or_json(drivetrain) -> None:
    old, new = drivetrain.write("old.json", RETRAINING), drivetrain.write("new.json", altered(in_studio))
    assert drivetrain("diff", old, new) == ("train: instance ml.m5.xlarge -> ml.g5.xlarge\ntrain: epochs 20 -> 30\n")
    assert json.loads(drivetrain("diff", old, new, "--json")) == [
        {
            "place": "steps.train.Arguments.ResourceConfig.InstanceType",
            "kind": "instance",
            "old": "ml.m5.xlarge",
            "new": "ml.g5.xlarge",
        },
        {"place": "steps.train.Arguments.HyperParameters.epochs", "kind": "hyperparameter", "old": "20", "new": "30"},
    ]
    assert drivetrain("diff", old, old) == "No difference.\n"
    assert json.loads(drivetrain("diff", old, old, "--json")) == []


def test_the_exit_code_is_optional(drivetrain) -> None:
    old, new = drivetrain.write("old.json", RETRAINING), drivetrain.write("new.json", altered(in_studio))
    drivetrain("diff", old, new, "--exit-code", code=1)
    drivetrain("diff", old, old, "--exit-code", code=0)


def test_a_pipeline_is_compared_with_its_own_definition(drivetrain) -> None:
    drivetrain("compile", "retraining", "-o", "r.json")
    assert drivetrain("diff", "r.json", "retraining") == "No difference.\n"
    assert "train: epochs 20 -> 30\n" in drivetrain("diff", "r.json", "retraining", "--set", "epochs=30")


def test_names_from_a_definition_cannot_steer_the_terminal(drivetrain) -> None:
    text = json.dumps(RETRAINING).replace('"train"', '"tr\\u001b[2Jain"')
    shown = drivetrain("diff", drivetrain.write("old.json", RETRAINING), drivetrain.write("new.json", text))
    assert "added (Training)" in shown and "\x1b" not in shown


def test_unreadable_definitions_are_refused(drivetrain) -> None:
    file = drivetrain.write("d.json", RETRAINING)
    assert "No such file" in drivetrain.error("diff", file, "none.json")
    assert "not JSON" in drivetrain.error("diff", drivetrain.write("x.json", "{"), file)
    assert "the definition has no Steps" in drivetrain.error("import", drivetrain.write("y.json", {"a": 1}))


def test_import_describes_the_definition_and_copies_it(drivetrain) -> None:
    unknown = Path(__file__).parents[3] / "fixtures" / "definitions" / "unknown_steps.json"
    said = drivetrain("import", unknown, "-o", "out.json")
    assert said.splitlines() == [
        f"{unknown}: 7 steps (3 Lambda, 1 Callback, 1 AthenaQuery2031, 1 ForEach, 1 EMR), 0 parameters.",
        "Step types that are not known here, kept as they are and not checked:",
        "    AthenaQuery2031: Sum",
        "Functions that are not known here, kept as they are and not worked out:",
        "    Std:Unheard: Sum",
        "Fields that are not known here, kept as they are:",
        "    FutureField",
        "Wrote out.json.",
        "Look at it: drivetrain show out.json",
        "Run it here: drivetrain run -d out.json",
    ]
    written = (drivetrain.folder / "out.json").read_text()
    assert json.loads(written) == json.loads(unknown.read_text())
    assert "2.50" in written and "1E5" in written
    assert drivetrain("diff", unknown, "out.json") == "No difference.\n"
    drivetrain("import", "out.json", "-o", "again.json")
    assert (drivetrain.folder / "again.json").read_text() == written
    assert json.loads(drivetrain("import", "out.json", "--json"))["unknown_types"] == {"AthenaQuery2031": ["Sum"]}


def test_import_reports_what_the_service_refuses(drivetrain) -> None:
    def wrong(steps: dict[str, Any]) -> None:
        steps["train"]["Arguments"]["ResourceConfig"]["InstanceCnt"] = 2
        steps["evaluate"]["DependsOn"] = ["nobody"]
        steps["evaluate"]["Unheard"] = 1

    file = drivetrain.write("d.json", altered(wrong))
    said = drivetrain("import", file)
    assert "    evaluate: Unheard\n" in said
    assert "depends on step 'nobody', which does not exist." in said
    assert "train: Arguments.ResourceConfig: unknown member 'InstanceCnt'. Did you mean 'InstanceCount'?" in said


def test_check_exits_with_1_if_something_would_be_refused(drivetrain) -> None:
    sound = {"Steps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}]}
    assert drivetrain("check", drivetrain.write("s.json", sound)) == (
        f"{drivetrain.folder}/s.json: 1 step, nothing that would be refused.\n"
    )
    broken = copy.deepcopy(sound)
    broken["Steps"].append({"Name": "stop", "Type": "Training", "Arguments": {"HyperParameters": {"a": 1}}})
    file = drivetrain.write("b.json", broken)
    said = drivetrain("check", file, code=1)
    assert "It cannot run:\n    2 steps are named 'stop'." in said
    assert 'stop: Arguments.HyperParameters.a: 1 is a number. Allowed: text. Write it as text: "1".' in said
    found = json.loads(drivetrain("check", file, "--json", code=1))
    assert found["types"] == {"Fail": 1, "Training": 1} and len(found["faults"]) == 1


def test_check_of_a_pipeline(drivetrain) -> None:
    assert drivetrain("check", "retraining") == "retraining: 8 steps, nothing that would be refused.\n"


def test_every_compile_keeps_what_was_edited_in_studio(drivetrain) -> None:
    before = drivetrain("compile", "retraining")
    drivetrain.write("retraining.studio.yaml", PATCH)
    assert drivetrain("compile", "retraining") == before.replace('"epochs": "20"', '"epochs": "30"')
    drivetrain.write("r.json", before)
    assert drivetrain("diff", "r.json", "retraining") == "train: epochs 20 -> 30\n"


def test_an_unfitting_edit_is_refused_when_deployed_and_skipped_locally(drivetrain) -> None:
    drivetrain.write("retraining.studio.yaml", PATCH)
    said = drivetrain.error("compile", "retraining", "--set", "epochs=5")
    assert "the edit at steps.train.Arguments.HyperParameters.epochs does not fit the code any more" in said
    drivetrain("show", "retraining", "--set", "epochs=5")


def test_an_edit_that_breaks_the_pipeline_is_refused(drivetrain) -> None:
    drivetrain.write("retraining.studio.yaml", "pipeline: retraining\nedits:\n- place: steps.lost\n  now: {}\n")
    assert "has no Name" in drivetrain.error("compile", "retraining")
    lost = "pipeline: retraining\nedits:\n- place: steps.train.DependsOn\n  now: [nobody]\n"
    drivetrain.write("retraining.studio.yaml", lost)
    said = drivetrain.error("compile", "retraining")
    assert "retraining with retraining.studio.yaml" in said and "'nobody', which does not exist" in said


def test_a_patch_of_another_pipeline_is_refused(drivetrain) -> None:
    drivetrain.write("retraining.studio.yaml", PATCH.replace("pipeline: retraining", "pipeline: other"))
    assert "is about the pipeline 'other'" in drivetrain.error("compile", "retraining")


def test_the_patch_is_read_from_beside_the_file(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = drivetrain.folder / "mine"
    folder.mkdir()
    (folder / "own_flow.py").write_text(
        "from drivetrain import Pipeline, fail\n\n\n"
        "def flow() -> Pipeline:\n    return Pipeline(name='own-flow', steps=[fail('no', name='stop')])\n"
    )
    (folder / "own-flow.studio.yaml").write_text(
        "pipeline: own-flow\nedits:\n- place: steps.stop.Arguments.ErrorMessage\n  was: no\n  now: never\n"
    )
    assert '"ErrorMessage": "never"' in drivetrain("compile", folder / "own_flow.py")


def test_a_secret_is_not_in_the_json_of_differences(drivetrain) -> None:
    def with_secret(steps: dict[str, Any]) -> None:
        steps[""]["Parameters"].append({"Name": "ApiToken", "Type": "String", "DefaultValue": "canary-1"})

    old, new = drivetrain.write("old.json", RETRAINING), drivetrain.write("new.json", altered(with_secret))
    [change] = json.loads(drivetrain("diff", old, new, "--json"))
    assert change["place"] == "parameters.ApiToken" and change["new"]["DefaultValue"] == "***"
