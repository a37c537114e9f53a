"""Suggestions: only settings that put the edited value in the edited place, found by compiling."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from drivetrain.authoring.settings import Settings, build
from drivetrain.base.errors import UserError
from drivetrain.studio.suggestions import Suggestion, find, suggest
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.settings import settings_of


class Retraining(Settings):
    epochs: int = 20
    same_number: int = 20
    rate: float = 0.003
    instance: str = "ml.m5.xlarge"
    spot: bool = False
    threshold: float = 1
    label: str = ""
    note: str = ""
    bounded: int = 5


def compiled(overrides: Sequence[str] = (), **in_studio: Any) -> dict[str, Any]:
    settings = build(Retraining, None, overrides, {})
    if settings.bounded > 7:
        raise UserError("at most 7")
    values = {"epochs": str(settings.epochs), "rate": str(settings.rate), "bounded": str(settings.bounded), "x": "20"}
    train = {
        "ResourceConfig": {"InstanceType": settings.instance},
        "EnableManagedSpotTraining": settings.spot,
        "RoleArn": settings_of(settings.deployment).role,
        "HyperParameters": {**values, **in_studio.pop("parameters", {})},
        **in_studio,
    }
    return {
        "Parameters": [{"Name": "Least", "Type": "Float", "DefaultValue": settings.threshold}],
        "Steps": [
            {"Name": "train", "Type": "Training", "Arguments": train},
            {
                "Name": "look",
                "Type": "Processing",
                "Arguments": {
                    "AppSpecification": {"ContainerArguments": ["--label", settings.label]},
                    "ProcessingResources": {"ClusterConfig": {"InstanceType": settings.instance}},
                },
            },
        ],
    }


def found(deployed: Mapping[str, Any]) -> tuple[Suggestion, ...]:
    edits = differences(compiled(), deployed)
    assert edits
    return find(Retraining(), edits, lambda overrides: compiled(overrides), "retraining.yaml")


def test_a_hyperparameter_is_the_line_of_its_setting() -> None:
    """`same_number` has the same value, and nothing to do with it."""
    [suggestion] = found(compiled(parameters={"epochs": "30"}))
    assert str(suggestion) == "epochs: 20 -> 30   in retraining.yaml (or --set epochs=30)"
    assert suggestion.to_json() == {
        "setting": "epochs",
        "old": 20,
        "new": "30",
        "file": "retraining.yaml",
        "edits": ["steps.train.Arguments.HyperParameters.epochs"],
        "also": [],
    }


def test_a_setting_of_the_deployment_is_named_in_its_block() -> None:
    [suggestion] = found(compiled(RoleArn="arn:aws:iam::123456789012:role/other"))
    assert suggestion.setting == "deployment.targets.sagemaker.role"


def test_other_effects_of_a_setting_are_reported() -> None:
    [suggestion] = found(compiled(ResourceConfig={"InstanceType": "ml.g5.xlarge"}))
    assert str(suggestion) == (
        "instance: ml.m5.xlarge -> ml.g5.xlarge   in retraining.yaml (or --set instance=ml.g5.xlarge); it also changes "
        "look"
    )


def test_one_setting_for_several_edits() -> None:
    deployed = compiled(["instance=ml.g5.xlarge", "threshold=0.5", "label=site"])
    deployed["Steps"][0]["Arguments"]["EnableManagedSpotTraining"] = True
    assert [(s.override, len(s.edits), s.also) for s in found(deployed)] == [
        ("threshold=0.5", 1, ()),
        ("instance=ml.g5.xlarge", 2, ()),
        ("spot=true", 1, ()),
        ("label=site", 1, ()),
    ]


@pytest.mark.parametrize(
    "in_studio",
    [
        {"parameters": {"x": "30"}},  # a number that no setting gave
        {"parameters": {"bounded": "9"}},  # one that the code does not allow
        {"parameters": {"rate": "fast"}},
        {"parameters": {"epochs": {"Get": "Parameters.Least"}}},
        {"parameters": {"new": "30"}},
        {"Tags": [{"Key": "a", "Value": "b"}]},
    ],
)
def test_edits_without_a_setting_have_no_suggestion(in_studio: dict[str, Any]) -> None:
    assert found(compiled(**in_studio)) == ()


def test_the_code_is_compiled_a_bounded_number_of_times() -> None:
    calls: list[Sequence[str]] = []

    def compile_with(overrides: Sequence[str]) -> Mapping[str, Any]:
        calls.append(overrides)
        return compiled(overrides)

    deployed = compiled(parameters={f"p{n}": "20" for n in range(100)})
    base = compiled(parameters={f"p{n}": f"{n}" for n in range(100)})
    find(Retraining(), differences(base, deployed), compile_with, "retraining.yaml")
    assert len(calls) < 10


def test_a_pipeline_of_the_package() -> None:
    from drivetrain.operations.operands import compiled as compiled_target
    from drivetrain.targets.sagemaker.document.document import read

    code = read(compiled_target("retraining", None, (), local=True).text).raw
    deployed = read(compiled_target("retraining", None, ["epochs=30", "min_accuracy=0.9"], local=True).text).raw
    edits = [c for c in differences(code, deployed) if c.kind in ("hyperparameter", "parameter")]
    suggestions = suggest("retraining", None, (), edits)
    assert [str(s).partition("   ")[0] for s in suggestions] == ["min_accuracy: 0.97 -> 0.9", "epochs: 20 -> 30"]


def test_a_pipeline_without_settings_has_none(tmp_path: Path) -> None:
    (tmp_path / "plain_one.py").write_text(
        "from drivetrain import Pipeline, fail\n\n\n"
        "def plain() -> Pipeline:\n    return Pipeline(name='plain', steps=[fail('no', name='stop')])\n"
    )
    edits = differences(compiled(), compiled(parameters={"epochs": "30"}))
    assert suggest(str(tmp_path / "plain_one.py"), None, (), edits) == ()
