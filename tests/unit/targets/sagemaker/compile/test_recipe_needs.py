"""What a recipe needs besides torch travels into the steps that run its models, or is asked for when compiling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, UserError, step
from drivetrain.components.evaluate import evaluate
from drivetrain.components.train import train
from drivetrain.resolving.frameworks import recipe_needs
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline


def pipeline(recipe: str, **more: Any) -> Pipeline:
    fit = step(train, train="s3://b/k/", recipe=recipe, **more)
    return Pipeline(name="fit", steps=[fit, step(evaluate, model=fit["model"], data="s3://b/k/")])


def test_needs_are_those_of_all_recipes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('NEEDS = ("lightgbm>=4",)\n')
    assert recipe_needs(pipeline("huggingface", weights="s3://b/m/"), tmp_path) == ("peft", "transformers")
    assert recipe_needs(pipeline("own"), tmp_path) == ("lightgbm>=4",)
    assert recipe_needs(pipeline("digits_cnn"), tmp_path) == ()


def test_packages_missing_in_the_image_are_requested(tmp_path: Path) -> None:
    assert compile_pipeline(pipeline("digits_cnn"), base=tmp_path).notes == ()
    with pytest.raises(UserError, match=r"(?s)is not in the image pytorch.* pip download .* peft .*transformers\n"):
        compile_pipeline(pipeline("huggingface", weights="s3://b/m/"), base=tmp_path)
