"""A step of the code that Studio has renamed: whatever refers to it finds it under its new name."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.studio.following import brought_up, renamed
from drivetrain.targets.sagemaker.compile import Generated
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError
from drivetrain.targets.sagemaker.document.difference.outline import outline


def test_references_to_a_renamed_step_use_its_new_name() -> None:
    """Also what the code has added since Studio renamed it."""
    parts = outline(
        {
            "Steps": [
                {"Name": "train", "Type": "Training", "Arguments": {"HyperParameters": {"of": "train"}}},
                {
                    "Name": "after",
                    "Type": "Processing",
                    "Arguments": {"A": [{"Get": "Steps.train.ModelArtifacts"}, {"Get": "Steps.train-2.X"}]},
                    "DependsOn": ["train", {"Step": "train", "Trigger": "Failed"}, "train-2"],
                },
            ]
        }
    )
    found: dict[str, Any] = dict(renamed(parts, "train", "nightly").steps or {})
    assert list(found) == ["nightly", "after"]
    assert found["nightly"]["Name"] == "nightly" and found["nightly"]["Arguments"]["HyperParameters"] == {"of": "train"}
    assert found["after"]["Arguments"]["A"] == [{"Get": "Steps.nightly.ModelArtifacts"}, {"Get": "Steps.train-2.X"}]
    assert found["after"]["DependsOn"] == ["nightly", {"Step": "nightly", "Trigger": "Failed"}, "train-2"]
    for old, new in (("lost", "x"), ("train", "after")):
        with pytest.raises(NoSuchPlaceError):
            renamed(parts, old, new)


def test_a_copied_step_takes_new_generated_values_and_keeps_edits() -> None:
    before = outline(
        {"Steps": [{"Name": "train", "Type": "Training", "Arguments": {"RoleArn": "old", "Code": "code-1"}}]}
    )
    made = {"Name": "copy", "Type": "Training", "Arguments": {"RoleArn": Generated("new"), "Code": Generated("code-2")}}
    step = {"Name": "copy", "Type": "Training", "Arguments": {"RoleArn": "old", "Code": "edited"}}
    found: Any = brought_up(step, made, before)
    assert found["Arguments"] == {"RoleArn": "new", "Code": "edited"}
