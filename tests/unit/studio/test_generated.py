"""What compiling generates is marked, and no edit expects it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.studio import patch as patches
from drivetrain.studio.merge import merge
from drivetrain.targets.sagemaker.compile import Generated
from drivetrain.targets.sagemaker.document.difference.difference import differences
from tests.fixtures.studio_edits import EDITS, steps_of
from tests.unit.studio.test_edits_follow import DEV, PROD, Studio, hashes, read, studio  # noqa: F401 - a fixture


def unmarked(one: Any, other: Any, at: str = "") -> list[str]:
    """The places where two compilations differ in what is not marked."""
    if isinstance(one, Generated) and isinstance(other, Generated):
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return [place for key in names for place in unmarked(one.get(key), other.get(key), f"{at}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [place for n, pair in enumerate(zip(one, other, strict=True)) for place in unmarked(*pair, f"{at}[{n}]")]
    only = one if other is None else other
    if (one is None or other is None) and isinstance(only, Generated):
        return []
    return [] if one == other else [at]


def test_generated_values_are_marked(studio: Studio) -> None:  # noqa: F811
    """A field that compiling generates and does not mark would freeze in an edit."""
    here = studio.alone()
    studio.edit_code()
    (studio.folder / "raw" / "rows.csv").write_text("2\n")
    studio.set(PROD)
    there = studio.alone()
    assert unmarked(here, there) == []
    assert json.dumps(here) != json.dumps(there)


def of_before(studio: Studio) -> None:  # noqa: F811
    """The file as earlier versions wrote it: whole steps with all that was generated that day."""
    changes = differences(studio.applied, studio.deployed)
    (studio.folder / "flow.studio.yaml").write_text(patches.Patch("flow", changes).text())


@pytest.mark.slow_cases("rename middle")
@pytest.mark.parametrize("kind", ["several", "rename middle"])
def test_an_old_patch_file_is_migrated(studio: Studio, kind: str) -> None:  # noqa: F811
    studio.apply()
    studio.edit(kind)
    of_before(studio)
    studio.edit_code()
    studio.set(PROD, epochs=5)
    compiled = studio.apply()
    assert hashes(compiled) <= hashes(studio.alone())
    steps = steps_of(compiled)
    for name in set(steps) & {"train-long", "train-nightly", "page"}:
        assert steps[name]["Arguments"]["RoleArn"].count(PROD)
        assert DEV not in json.dumps(steps[name])
    # What Studio changes now is written as this version writes it.
    studio.deployed = read(json.dumps(compiled))
    steps_of(studio.deployed)["prepare"]["DisplayName"] = "Prepare"
    assert studio.pull() == ["steps.prepare.DisplayName"]
    text = (studio.folder / "flow.studio.yaml").read_text()
    assert "Name\n  was: " in text and DEV not in text.replace(f"{DEV}:function", "").replace(f"{DEV}:role/special", "")
    assert differences(studio.deployed, studio.compile()) == ()


def test_only_authored_values_are_expected(studio: Studio) -> None:  # noqa: F811
    studio.apply()
    studio.edit("delete leaf")
    studio.pull()
    studio.apply()
    text = studio.file.read_text()
    studio.file.write_text(text.replace("step(report, model", 'step(report, title="Other", model'))
    with pytest.raises(UserError) as told:
        studio.compile()
    place = "steps.report.Arguments.AppSpecification.ContainerArguments.--title"
    said = (
        f"the edit at steps.report does not fit the code any more: at {place} it expects Scores, and the code now has"
    )
    assert f"{said} Other." in str(told.value)


def test_code_that_changed_before_the_pull_is_no_conflict(studio: Studio) -> None:  # noqa: F811
    studio.apply()
    studio.edit("several")
    EDITS["arg append"](steps_of(studio.deployed))
    studio.edit_code()
    assert studio.pull() == []
    assert hashes(studio.apply()) <= hashes(studio.alone())


def test_a_step_follows_its_origin_until_the_code_has_none(studio: Studio) -> None:  # noqa: F811
    studio.apply()
    studio.edit("split step")
    studio.pull()
    studio.set(DEV, epochs=9)
    steps = steps_of(studio.apply())
    assert steps["train-long"]["Arguments"]["HyperParameters"] | {"rate": ""} == {
        **steps["train"]["Arguments"]["HyperParameters"],
        "rate": "",
    }
    studio.file.write_text(studio.file.read_text().replace('name="train"', 'name="learn"'))
    with pytest.raises(UserError, match=r"steps\.train is not there.*--give-up steps\.train-long"):
        studio.compile()


def test_references_to_a_renamed_step_in_new_code_follow(studio: Studio) -> None:  # noqa: F811
    studio.apply()
    studio.edit("rename gate")
    studio.pull()
    text = studio.file.read_text()
    more = 'fail("not good enough"), fail("x", name="y")'
    studio.file.write_text(text.replace('fail("not good enough")', more))
    gate = steps_of(studio.compile())["good-enough"]
    assert [step["Name"] for step in gate["Arguments"]["ElseSteps"]] == ["stop", "y"]


def test_a_copy_within_a_loop_follows_too() -> None:
    def flow(role: str, *more: str) -> dict[str, Any]:
        def fit(name: str) -> dict[str, Any]:
            words = ["--code", Generated(role * 16), "--rate", "0.1"]
            algorithm = {"TrainingImage": Generated(role), "ContainerArguments": words}
            arguments = {"RoleArn": Generated(role), "AlgorithmSpecification": algorithm, "HyperParameters": {"a": "1"}}
            return {"Name": name, "Type": "Training", "Arguments": arguments}

        body = [fit(name) for name in ("fit", *more)]
        return {"Steps": [{"Name": "each", "Type": "ForEach", "Arguments": {"ForEachBody": body}}]}

    applied, deployed = read(json.dumps(flow("dev"))), read(json.dumps(flow("dev", "again")))
    deployed["Steps"][0]["Arguments"]["ForEachBody"][1]["Arguments"]["HyperParameters"]["a"] = "2"
    merged = merge(applied, flow("dev"), deployed)
    patch = patches.parse(patches.between("p", flow("dev"), merged.definition, applied=applied).text())
    assert "dev" not in patch.text()
    for role in ("dev", "new"):
        wanted = flow(role, "again")
        wanted["Steps"][0]["Arguments"]["ForEachBody"][1]["Arguments"]["HyperParameters"]["a"] = "2"
        assert differences(patch.apply(flow(role)), wanted) == ()
