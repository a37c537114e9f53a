"""What is read of a recipe's file before a training starts: the members that it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain import Pipeline, SpecError, step
from drivetrain.catalog.strategies import RECIPE_MEMBERS, lacking_of_recipe, recipes_folder
from drivetrain.components.train import train
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.training.recipe import Recipe

WHOLE = """from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe{bases}:
    num_classes: int = 2
    columns = ("a", "b")

    def model(self): ...
    def batch(self, columns, label): ...
    def losses(self, outputs, targets): ...
    def metrics(self, outputs, targets): ...
    def optimizer(self, model, *, learning_rate, weight_decay): ...
"""


def lacking(folder: Path, text: str) -> list[str]:
    (folder / "rec.py").write_text(text)
    return lacking_of_recipe(folder / "rec.py")[1]


def test_the_members_are_those_of_the_protocol() -> None:
    assert set(RECIPE_MEMBERS) == {name for name in vars(Recipe) if not name.startswith("_")}


def test_the_recipes_of_the_package_lack_nothing() -> None:
    files = [each for each in recipes_folder().glob("*.py") if not each.name.startswith("_")]
    assert files and all(not lacking_of_recipe(each)[1] for each in files)


@pytest.mark.parametrize("name", RECIPE_MEMBERS)
def test_a_missing_member_is_named(name: str, tmp_path: Path) -> None:
    lines = [line for line in WHOLE.format(bases="").splitlines(True) if f" {name}(" not in line]
    text = "".join(line for line in lines if not line.strip().startswith(name))
    assert lacking(tmp_path, text) == [name]
    assert lacking(tmp_path, text.replace("class Recipe", "class Recipe(Other)")) == []  # it may inherit it
    assert lacking(tmp_path, text.replace("@dataclass", "@other\n@dataclass")) == []


def test_a_whole_recipe_and_none_lack_nothing(tmp_path: Path) -> None:
    assert lacking(tmp_path, WHOLE.format(bases="")) == lacking(tmp_path, "x = 1") == lacking(tmp_path, "class") == []


def test_a_recipe_without_a_member_is_refused_at_compile_time(tmp_path: Path) -> None:
    (tmp_path / "rec.py").write_text(WHOLE.format(bases="").replace("optimizer", "optimiser"))
    pipeline = Pipeline(name="p", steps=[step(train, train="s3://b/train/", recipe="rec")])
    with pytest.raises(SpecError) as refused:
        compile_pipeline(pipeline, source=tmp_path)
    assert str(refused.value) == (
        "rec.py, line 5: recipe 'rec' of step 'train' lacks optimizer. Give its class Recipe: def optimizer(self, "
        "model, *, learning_rate, weight_decay)."
    )
