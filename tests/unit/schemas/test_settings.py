"""The schema of a settings file refuses what `build` refuses, and says what each field is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import Field

from drivetrain.authoring.loading import settings_of
from drivetrain.authoring.plain_yaml import read_yaml
from drivetrain.authoring.ready import ready_pipelines
from drivetrain.authoring.settings import Settings, build
from drivetrain.base.errors import UserError
from drivetrain.pipelines.retraining import Retraining
from drivetrain.schemas.settings import patch_schema, settings_schema
from drivetrain.studio.patch import Patch, parse
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change

EPOCHS = "steps.train.Arguments.HyperParameters.epochs"


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    made = settings_schema(Retraining)
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("epochs: 3\nlearning_rate: 0.1\nspot: true\n", True),
        ("strategy_options: {tensor: 2}\n", True),
        ("strategy_options: '{}'\n", True),
        ("deployment:\n  targets: {sagemaker: {region: eu-west-1, tags: {team: a}}}\n", True),
        ("deployment:\n  targets: {kubeflow: {namespace: team-a, trainer: {keep: failed}}}\n", True),
        ("deployment:\n  target: kubeflow\n", True),
        ("deployment:\n  targets: {sagemaker: {role: 'arn:aws:iam::123456789012:role/one', image: null}}\n", True),
        ("local:\n  stubs: {train: out.json}\n", True),
        ("epoch: 3\n", False),
        ("epochs: many\n", False),
        ("epochs: 1.5\n", False),
        ("dataset: 5\n", False),
        ("spot: [true]\n", False),
        ("deployment:\n  region: Mars\n", False),
        ("deployment:\n  targets: {sagemaker: {region: Mars}}\n", False),
        ("deployment:\n  targets: {kubeflow: {namespace: Team_A}}\n", False),
        ("deployment:\n  targets: {kubeflow: {namspace: team-a}}\n", False),
        ("deployment:\n  targets: {kubflow: {}}\n", False),
        ("deployment:\n  regions: eu-west-1\n", False),
        ("deployment:\n  tags: [a]\n", False),
        ("deployment: eu-west-1\n", False),
        ("local:\n  stub: {train: out.json}\n", False),
    ],
)
def test_the_schema_accepts_exactly_buildable_files(
    text: str, right: bool, validator: Draft202012Validator, tmp_path: Path
) -> None:
    file = tmp_path / "retraining.yaml"
    file.write_text(text)
    assert validator.is_valid(read_yaml(file)) == right
    try:
        built = build(Retraining, file, (), {})
    except UserError:
        built = None
    assert (built is not None) == right


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_every_field_is_described_and_no_other_allowed(name: str) -> None:
    kind = settings_of(name)
    assert kind is not None
    schema = settings_schema(kind)
    for where, model in (("", schema), *schema["$defs"].items()):
        assert model["additionalProperties"] is False
        assert {
            field for field, described in model["properties"].items() if not described.get("description")
        } == set(), where


class Base(Settings):
    first: int = 1
    """What is said
    of it."""
    second: str = "a"
    """Said by the base."""


class Own(Base):
    second: str = Field("b", description="Said by the field.")
    """Said below it."""
    third: str | None = None
    bare: float = 0.0


def test_descriptions_come_from_the_docstrings_of_fields() -> None:
    fields = settings_schema(Own)["properties"]
    assert {
        name: field.get("description") for name, field in fields.items() if name not in ("deployment", "local")
    } == {
        "first": "What is said of it.",
        "second": "Said by the field.",
        "third": None,
        "bare": None,
    }
    assert fields["third"]["anyOf"] == [{"type": ["string", "object", "array"]}, {"type": "null"}]


def test_a_class_without_source_is_described_without_words() -> None:
    names: dict[str, type[Settings]] = {}
    exec("class Typed(Settings):\n    epochs: int = 3\n    'How often.'\n", {"Settings": Settings}, names)
    assert settings_schema(names["Typed"])["properties"]["epochs"] == {"default": 3, "type": "integer"}


class Called(Settings):
    hook: Callable[[], None] = print


def test_a_field_that_no_file_can_hold_is_named() -> None:
    with pytest.raises(UserError, match="Called has a field that no settings file can hold"):
        settings_schema(Called)


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
