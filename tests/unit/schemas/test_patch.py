"""The schema of a patch takes what `pull` writes, and refuses what `parse` refuses."""

from __future__ import annotations

import pytest
import yaml
from jsonschema import Draft202012Validator

from drivetrain.base.errors import UserError
from drivetrain.schemas.patch import patch_schema
from drivetrain.studio.patch import Patch, parse
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change

EPOCHS = "steps.train.Arguments.HyperParameters.epochs"


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    made = patch_schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def test_written_patches_match_the_schema(schema: Draft202012Validator) -> None:
    edits = (
        Change(("steps", "train", "Arguments", "HyperParameters", "epochs"), "20", "30", "hyperparameter"),
        Change(("steps", "notify"), ABSENT, {"Name": "notify", "Type": "Lambda", "FunctionArn": "a"}, "step"),
        Change(("steps", "old"), {"Name": "old", "Type": "Fail"}, ABSENT, "step"),
        Change(("parameters", "a b", "DefaultValue"), 1.0, None, "parameter"),
        Change(("definition", "Metadata"), {"half": "\ud800"}, {}, "other"),
        Change(("branches", "old"), "x", "y", "edge"),
    )
    text = Patch("retraining", edits).text()
    assert "was-json" in text
    for patch in (text, Patch("retraining").text()):
        assert [error.message for error in schema.iter_errors(yaml.safe_load(patch))] == []


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n  now: '30'\n", True),
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n  was-json: '[1]'\n", True),
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n  now: null\n", True),
        ("edits: []\n", False),
        ("pipeline: p\n", False),
        ("pipeline: p\nedits: {}\n", False),
        ("pipeline: p\nedits: []\nedit: []\n", False),
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n", False),
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n  now: 1\n  then: 2\n", False),
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n  now: 1\n  now-json: '2'\n", False),
        (f"pipeline: p\nedits:\n- place: {EPOCHS}\n  now-json: [2]\n", False),
        ("pipeline: p\nedits:\n- now: 1\n", False),
        ("pipeline: p\nedits:\n- place: train.epochs\n  now: 1\n", False),
        ("pipeline: p\nedits:\n- place: stepsX.train\n  now: 1\n", False),
        ("pipeline: p\nedits:\n- steps.train\n", False),
    ],
)
def test_the_schema_accepts_exactly_patches(schema: Draft202012Validator, text: str, right: bool) -> None:
    assert schema.is_valid(yaml.safe_load(text)) == right
    try:
        parse(text)
    except UserError:
        assert not right
    else:
        assert right
