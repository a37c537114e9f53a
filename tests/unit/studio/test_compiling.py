"""Every way to a compiled pipeline lays on the edits that are kept beside it."""

import ast
import json
from pathlib import Path

import pytest

from drivetrain.authoring.loading import Loaded, load
from drivetrain.base.errors import UserError
from drivetrain.studio import compile_edited, patch
from drivetrain.studio.deployment_texts import NO_TEXTS
from drivetrain.studio.pulling import Sides

ROOT = Path(__file__).parents[3]
# What compiles without the edits, and why.
WITHOUT_EDITS = {
    "drivetrain/studio/__init__.py": "lays them on",
    "drivetrain/studio/suggestions.py": "asks which setting gives a value of the code",
    "drivetrain/studio/pulling.py": "tells what the code says from what was edited, and lays them on itself",
    "drivetrain/targets/sagemaker/target.py": "a spec, as the protocol of targets has it",
    "drivetrain/targets/kubeflow/target.py": "as above; Studio edits what SageMaker deploys",
    "drivetrain/targets/sagemaker/sdk/__init__.py": "a spec, which has no place beside which edits could lie",
    "drivetrain/targets/sagemaker/written/__init__.py": "code that was just written, to compare it with its definition",
    "drivetrain/targets/kubeflow/written/__init__.py": "as above",
}
PIPELINE = """\
from drivetrain import Pipeline, fail


def nightly() -> Pipeline:
    return Pipeline(name="nightly", steps=[fail("no", name="stop")])
"""


def loaded(folder: Path, name: str, edit: str = "") -> Loaded:
    (folder / f"{name}.py").write_text(PIPELINE)
    if edit:
        (folder / "nightly.studio.yaml").write_text(f"pipeline: nightly\nedits:\n{edit}")
    return load(str(folder / f"{name}.py"))


def test_edits_are_applied(tmp_path: Path) -> None:
    edit = "- place: steps.stop.Description\n  now: why\n"
    built = compile_edited(loaded(tmp_path, "edited_flow", edit))
    assert built.definition["Steps"][0]["Description"] == "why"


def test_without_edits_the_code_is_unchanged(tmp_path: Path) -> None:
    built = compile_edited(loaded(tmp_path, "plain_flow"))
    assert "Description" not in built.definition["Steps"][0]


def test_an_unfitting_edit_is_refused(tmp_path: Path) -> None:
    """A missing wheel and an edit that does not fit are two things: a stack does without one and not the other."""
    made = loaded(tmp_path, "unfit_flow", "- place: steps.lost.Description\n  now: why\n")
    with pytest.raises(UserError, match=r"steps\.lost\.Description"):
        compile_edited(made, here=True)
    left = compile_edited(made, edits_optional=True)
    assert [note for note in left.notes if "steps.lost.Description" in note]


TWO = """\
import {name}_one
import {name}_two
from drivetrain import Pipeline, step


def nightly() -> Pipeline:
    return Pipeline(name="nightly", steps=[step({name}_one.run, name="own"), step({name}_two.run, name="other")])
"""
STEP = """\
from drivetrain.components import Output, component


@component
def run(out: Output) -> None: ...
"""


@pytest.mark.parametrize(
    "program", ["edits_two:run", "edits_one:run", "script:edits_two.py", "drivetrain.components.train:train"]
)
def test_a_program_that_does_not_travel_with_a_step_is_refused(tmp_path: Path, program: str) -> None:
    """Studio lets a step run what only the other one's code has."""
    for name in ("one", "two"):
        (tmp_path / f"edits_{name}.py").write_text(STEP)
    (tmp_path / "edits_flow.py").write_text(TWO.format(name="edits"))
    made = load(str(tmp_path / "edits_flow.py"))
    built = compile_edited(made)
    alone = dict(built.definition)
    edited = json.loads(json.dumps(alone))
    edited["Steps"][0]["Arguments"]["AppSpecification"]["ContainerArguments"][2] = program
    patch.between("nightly", alone, edited, applied=alone, kept=(), texts=NO_TEXTS).write(made.edits)
    if program == "edits_one:run":
        assert compile_edited(made).definition == edited
        return
    missing = r"edits_two\.py.*\(edits_one\.py\)" if "two" in program else "drivetrain/components/train, only what"
    refusal = rf"Step 'own': .*runs '{program}'.*has no {missing}"
    with pytest.raises(UserError, match=refusal):
        compile_edited(made)
    sides = Sides("nightly", made.edits, alone, alone, edited, alone, assets=built.assets)
    with pytest.raises(UserError, match=rf"{refusal}.*Nothing was written"):
        sides.merged({})


@pytest.mark.slow
def test_nothing_else_compiles_a_pipeline_without_its_edits() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("drivetrain", "pipelines", "infra")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "compile_pipeline" for alias in node.names)
    }
    assert found == set(WITHOUT_EDITS)
