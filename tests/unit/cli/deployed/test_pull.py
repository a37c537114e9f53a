"""What `pull` merges and keeps, without an account: pull after pull, what could not run, definitions, taking over."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.deployed.pull import _as_json, _lines
from drivetrain.studio import patch as patches
from drivetrain.studio.merge import Merged, merge
from drivetrain.studio.pulling import Sides
from drivetrain.targets.sagemaker.document.difference.difference import differences
from tests.fixtures.changed_definitions import RETRAINING, altered

Definition = dict[str, Any]
Edit = Callable[[dict[str, Any]], object]

NIGHTLY: Definition = {
    "Version": "2020-12-01",
    "Parameters": [{"Name": "Least", "Type": "Float", "DefaultValue": 0.9}],
    "Steps": [
        {"Name": "train", "Type": "Training", "Arguments": {"HyperParameters": {"epochs": "20", "rate": "0.1"}}},
        {
            "Name": "gate",
            "Type": "Condition",
            "Arguments": {
                "Conditions": [{"Type": "LessThan", "LeftValue": {"Get": "Parameters.Least"}, "RightValue": 1}],
                "IfSteps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}],
                "ElseSteps": [],
            },
        },
    ],
}
EPOCHS = "steps.train.Arguments.HyperParameters.epochs"


def nightly(*edits: Edit) -> Definition:
    made = copy.deepcopy(NIGHTLY)
    train, gate = made["Steps"]
    for edit in edits:
        edit({"": made, "train": train, "gate": gate, "stop": gate["Arguments"]["IfSteps"][0]})
    return made


def epochs(number: int) -> Edit:
    return lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs=str(number))


def rate(number: float) -> Edit:
    return lambda s: s["train"]["Arguments"]["HyperParameters"].update(rate=str(number))


class Working:
    """A folder with a pipeline's patch."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "nightly.studio.yaml"

    def sides(self, applied: Definition | None, alone: Definition, deployed: Definition) -> Sides:
        patch = patches.read(self.file, "nightly") if self.file.exists() else None
        code = alone if patch is None else patch.apply(alone)
        return Sides("nightly", self.file, alone, code, deployed, applied, patch)

    def pull(self, applied: Definition | None, alone: Definition, deployed: Definition, **take: Any) -> Merged:
        sides = self.sides(applied, alone, deployed)
        merged = sides.merged(take)
        if merged.edits and not merged.conflicts:
            sides.keep(merged)
        return merged

    def code(self, alone: Definition) -> Definition:
        return patches.read(self.file).apply(alone)


@pytest.fixture
def working(tmp_path: Path) -> Working:
    return Working(tmp_path)


def test_the_json_of_pull_has_no_secret() -> None:
    def edited(steps: dict[str, Any]) -> None:
        steps["prepare"]["Arguments"]["Environment"]["API_TOKEN"] = "canary-1"
        steps[""]["Parameters"].append({"Name": "DbPassword", "Type": "String", "DefaultValue": "canary-2"})

    merged = merge(RETRAINING, RETRAINING, altered(edited))
    sides = Sides("retraining", Path("retraining.studio.yaml"), RETRAINING, RETRAINING, altered(edited), RETRAINING)
    said = json.dumps(_as_json(merged, sides, written=False))
    assert len(merged.edits) == 2 and said.count("***") == 2
    assert "canary" not in said


def test_a_second_edit_before_the_next_apply_is_no_conflict(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30)))
    again = working.pull(NIGHTLY, NIGHTLY, nightly(epochs(40), rate(0.2)))
    assert again.conflicts == () and [(e.old, e.new) for e in again.edits] == [("30", "40"), ("0.1", "0.2")]
    assert working.code(NIGHTLY) == nightly(epochs(40), rate(0.2))
    assert working.pull(NIGHTLY, NIGHTLY, nightly(epochs(40), rate(0.2))).edits == ()


def test_an_edit_reverted_in_studio_is_removed(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30), rate(0.2)))
    again = working.pull(NIGHTLY, NIGHTLY, nightly(rate(0.2)))
    assert [(edit.where, edit.new) for edit in again.edits] == [(EPOCHS, "20")]
    assert working.code(NIGHTLY) == nightly(rate(0.2))
    working.pull(NIGHTLY, NIGHTLY, nightly())
    assert patches.read(working.file).edits == () and working.code(NIGHTLY) == NIGHTLY


def test_a_step_added_and_removed_again_is_removed(working: Working) -> None:
    def added(steps: dict[str, Any]) -> None:
        told = {"Name": "tell", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
        steps["gate"]["Arguments"]["ElseSteps"].append(told)

    working.pull(NIGHTLY, NIGHTLY, nightly(added))
    assert working.code(NIGHTLY) == nightly(added)
    assert working.pull(NIGHTLY, NIGHTLY, nightly(added)).edits == ()
    working.pull(NIGHTLY, NIGHTLY, NIGHTLY)
    assert working.code(NIGHTLY) == NIGHTLY


def test_edits_of_a_reviewer_stay(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30)))
    text = working.file.read_text().replace('now: "30"', 'now: "35"')
    own = '- place: steps.train.Arguments.HyperParameters.rate\n  was: "0.1"\n  now: "30"\n'
    working.file.write_text(text.replace("# Hashes", own + "# Hashes"))
    reviewed = nightly(epochs(35), rate(30))
    assert working.code(NIGHTLY) == reviewed
    # Studio still has what was pulled: nothing is new, and nothing is taken back.
    merged = working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30)))
    assert (merged.edits, merged.conflicts) == ((), ()) and working.code(NIGHTLY) == reviewed
    # What is pulled besides makes the reviewer's edits no edits of Studio's.
    named = nightly(epochs(30), lambda s: s["gate"].update(DisplayName="Good?"))
    working.pull(NIGHTLY, NIGHTLY, named)
    text = working.file.read_text()
    assert "20 -> 30" not in text and text.count("# train: epochs 20 -> 35") == 1
    assert working.pull(NIGHTLY, NIGHTLY, named).edits == ()
    assert working.code(NIGHTLY)["Steps"][0] == reviewed["Steps"][0]
    # Edited again, Studio and the reviewer disagree.
    [conflict] = working.pull(NIGHTLY, NIGHTLY, nightly(epochs(31))).conflicts
    assert str(conflict) == f"{EPOCHS}: was 20, the code has 35, Studio has 31"


def test_after_apply_earlier_edits_belong_to_the_code(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30)))
    applied = nightly(epochs(30), rate(0.2))
    merged = working.pull(applied, nightly(rate(0.2)), nightly(epochs(30), rate(0.7)))
    assert [edit.new for edit in merged.edits] == ["0.7"]
    assert working.code(nightly(rate(0.2))) == nightly(epochs(30), rate(0.7))
    # Another apply gave the edit up: that is no take-back by Studio.
    merged = working.pull(nightly(rate(0.2)), nightly(rate(0.2)), nightly(rate(0.2)))
    assert merged.edits == ()


def test_the_code_may_change_between_two_pulls(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30)))
    code = nightly(rate(0.5))
    merged = working.pull(NIGHTLY, code, nightly(epochs(40)))
    assert merged.conflicts == () and working.code(code) == nightly(epochs(40), rate(0.5))


def test_comments_of_reviewers_are_kept(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(30), rate(0.2)))
    place = f"- place: {EPOCHS}\n"
    text = working.file.read_text().replace(place, f"# Agreed with Ann.\n{place.rstrip()}  # see the ticket\n")
    text = (
        text.replace('now: "30"', 'now: "30"  # in March')
        .replace('now: "0.2"', 'now: "0.2"  # too low?')
        .replace("pipeline: ", "# Ours.\npipeline: ")
    )
    working.file.write_text(text)
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(40), rate(0.2)))
    lines = working.file.read_text().splitlines()
    at = lines.index(place.rstrip())
    said = ["# Agreed with Ann.", "# see the ticket", "# in March", "# train: epochs 20 -> 40"]
    assert lines[at - 4 : at] == said
    at = lines.index("- place: steps.train.Arguments.HyperParameters.rate")
    assert lines[at - 2 : at] == ["# too low?", "# train: rate 0.1 -> 0.2"]
    assert lines.index("# Ours.") < lines.index("pipeline: nightly")
    assert not any("20 -> 30" in line for line in lines)
    before = working.file.read_text()
    assert patches.read(working.file).text() == before
    # With the edit its comments go.
    working.pull(NIGHTLY, NIGHTLY, nightly(rate(0.2)))
    assert "Ann" not in working.file.read_text() and "# too low?" in working.file.read_text()


def test_a_merge_that_cannot_run_is_not_written(working: Working) -> None:
    def reads_it(steps: dict[str, Any]) -> None:
        steps["stop"]["Arguments"]["ErrorMessage"] = {"Get": "Steps.train.TrainingJobName"}
        steps["gate"]["DisplayName"] = "Good enough?"

    code = nightly(lambda s: s[""]["Steps"].remove(s["train"]))
    with pytest.raises(UserError) as told:
        working.pull(NIGHTLY, code, nightly(reads_it))
    said = str(told.value)
    assert "there is no step 'train'" in said and "Nothing was written." in said
    assert "steps.stop.Arguments.ErrorMessage" in said and "--take-code PLACE" in said
    assert not working.file.exists()
    merged = working.pull(NIGHTLY, code, nightly(reads_it), **{"steps.stop.Arguments.ErrorMessage": "code"})
    assert [edit.where for edit in merged.edits] == ["steps.gate.DisplayName"]


def test_a_removed_studio_step_leaves_no_branch(working: Working) -> None:
    def added(steps: dict[str, Any]) -> None:
        told = {"Name": "tell", "Type": "Fail", "Arguments": {"ErrorMessage": {"Get": "Steps.none.X"}}}
        steps["gate"]["Arguments"]["ElseSteps"].append(told)

    with pytest.raises(UserError, match="there is no step 'none'"):
        working.pull(NIGHTLY, NIGHTLY, nightly(added))
    merged = working.pull(NIGHTLY, NIGHTLY, nightly(added), **{"steps.tell": "code"})
    assert (merged.edits, merged.conflicts) == ((), ())


def test_a_patch_of_another_pipeline_is_refused(working: Working) -> None:
    working.file.write_text("pipeline: weekly\nedits: []\n")
    with pytest.raises(UserError, match=r"is about the pipeline 'weekly', not 'nightly'\. Rename the file\."):
        working.pull(NIGHTLY, NIGHTLY, NIGHTLY)


def test_a_definition_keeps_edits_in_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "theirs.json"
    code, deployed = nightly(rate(0.5)), nightly(epochs(30))
    sides = Sides("theirs", file, code, code, deployed, NIGHTLY, is_definition=True)
    sides.keep(sides.merged({}))
    assert differences(json.loads(file.read_text()), nightly(epochs(30), rate(0.5))) == ()


def test_a_code_change_after_taking_over_is_not_reverted(working: Working) -> None:
    theirs = nightly(epochs(30))
    working.pull(None, NIGHTLY, theirs)
    assert working.code(NIGHTLY) == theirs
    code = nightly(rate(0.5))
    sides = working.sides(None, code, theirs)
    merged = sides.merged({})
    assert (merged.edits, merged.conflicts) == ((), ())
    [line] = _lines(merged, sides, written=False, again="nightly.py")
    assert line.endswith("What the code changes since: drivetrain apply nightly.py --discard all")
    # Where Studio changed again, everything that differs is an edit again.
    assert {edit.new for edit in working.pull(None, NIGHTLY, nightly(epochs(31))).edits} == {"31"}


def test_an_edit_deleted_by_a_reviewer_is_not_restored(working: Working) -> None:
    both = nightly(epochs(30), rate(0.2))
    working.pull(NIGHTLY, NIGHTLY, both)
    text = working.file.read_text()
    begin, end = text.index("# train: epochs"), text.index("# train: rate")
    working.file.write_text(text[:begin] + text[end:])
    reviewed = nightly(rate(0.2))
    assert working.code(NIGHTLY) == reviewed
    for deployed in (both, nightly(epochs(30), rate(0.3)), nightly(epochs(30), rate(0.4))):
        working.pull(NIGHTLY, NIGHTLY, deployed)
        assert EPOCHS not in working.file.read_text()
    # Edited again, it is an edit again.
    working.pull(NIGHTLY, NIGHTLY, nightly(epochs(31), rate(0.4)))
    assert working.code(NIGHTLY) == nightly(epochs(31), rate(0.4))


def test_a_reviewer_comment_that_looks_generated_is_kept(working: Working) -> None:
    working.pull(NIGHTLY, NIGHTLY, nightly(rate(0.2)))
    own = "# train: rate limits agreed with Ann -> see the ticket"
    working.file.write_text(working.file.read_text().replace("# train: rate", f"{own}\n# train: rate", 1))
    working.pull(NIGHTLY, NIGHTLY, nightly(rate(0.3)))
    lines = working.file.read_text().splitlines()
    assert own in lines and [line for line in lines if "->" in line and line != own] == ["# train: rate 0.1 -> 0.3"]


def test_an_outdated_edit_can_be_discarded(drivetrain) -> None:
    place = "steps.train.Arguments.HyperParameters"
    edits = [{"place": f"{place}.{name}", "was": "99", "now": "30"} for name in ("epochs", "seed")]
    edits.append({"place": "steps.train.DisplayName", "now": "Learn"})
    (drivetrain.folder / "digits.py").write_text(PIPELINE)
    file = drivetrain.folder / "digits.studio.yaml"
    file.write_text(json.dumps({"pipeline": "digits", "edits": edits}))
    said = drivetrain.error("compile", "digits.py")
    assert f"--give-up {place}.epochs" in said
    assert "has no edit at 'steps.trai'" in drivetrain.error("pull", "digits.py", "--give-up", "steps.trai")
    said = drivetrain("pull", "digits.py", "--give-up", place)
    assert "Given up:" in said and [edit.where for edit in patches.read(file).edits] == ["steps.train.DisplayName"]
    assert '"DisplayName": "Learn"' in drivetrain("compile", "digits.py")
    assert "nothing but the pipeline" in drivetrain.error("pull", "digits.py", "--give-up", "all", "--dry-run")


PIPELINE = """
from drivetrain.components.train import train
from drivetrain import Pipeline, step

def digits() -> Pipeline:
    return Pipeline(name="digits", steps=[step(train, train="s3://b/train/", epochs=3)])
"""
