from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.training import plugins
from drivetrain.training.recipe import Batch, Recipe, load_recipe

OWN = """
from dataclasses import dataclass
from drivetrain.training_scripts.recipes.digits_cnn import Recipe as Digits

@dataclass(frozen=True, kw_only=True)
class Recipe(Digits):
    depth: int = 3
"""


def test_a_typo_gets_the_closest_name() -> None:
    with pytest.raises(InputError, match=r"no recipe 'digit_cnn'\. Did you mean 'digits_cnn'\? Allowed: .*digits_cnn"):
        load_recipe("digit_cnn", {})


@pytest.mark.parametrize("name", ["no_such_package.faces", "../digits_cnn", "", "digits_cnn.Recipe", "antigravity"])
def test_names_that_are_no_module(name: str) -> None:
    with pytest.raises(InputError, match="no recipe"):
        load_recipe(name, {})


def test_a_typo_in_an_option() -> None:
    with pytest.raises(InputError, match=r"recipe 'digits_cnn' has no option 'chanels'\. Did you mean 'channels'\?"):
        load_recipe("digits_cnn", {"chanels": 3})


@pytest.mark.parametrize("value", [0, 1.5, "32", True])
def test_an_option_of_the_wrong_kind(value: object) -> None:
    with pytest.raises(InputError, match=r"recipe 'digits_cnn'.*channels=.*whole number"):
        load_recipe("digits_cnn", {"channels": value})


@pytest.mark.parametrize("text", ["{", "[1]", "3", "[" * 100_000])
def test_options_that_are_no_json_object(text: str) -> None:
    with pytest.raises(InputError, match="are not"):
        parse_options(text, "recipe_options")


def test_a_recipe_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_recipe_a.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    recipe = load_recipe("own_recipe_a", {"depth": 5})
    assert recipe.depth == 5  # type: ignore[attr-defined]


def test_a_name_from_data_leads_to_nothing_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input" / "model").mkdir(parents=True)
    (tmp_path / "input" / "model" / "own_recipe_e.py").write_text(OWN)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "own_recipe_f.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(tmp_path / "source"), *sys.path])
    plugins.forget_current_folder()
    with pytest.raises(InputError, match="no recipe"):
        load_recipe("input.model.own_recipe_e", {})
    assert isinstance(load_recipe("own_recipe_f", {}), Recipe)


def test_a_current_folder_that_pythonpath_names_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    plugins.forget_current_folder()
    assert str(tmp_path) in sys.path


def test_a_module_that_is_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_recipe_b.py").write_text("Recipe = 3")
    (tmp_path / "own_recipe_c.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Recipe:\n    columns = ()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"own_recipe_b\.py\) has no dataclass named Recipe"):
        load_recipe("own_recipe_b", {})
    with pytest.raises(InputError, match=r"own_recipe_c\.py\) lacks batch, losses, metrics, model, num_classes, opt"):
        load_recipe("own_recipe_c", {})


BROKEN = {
    "a package that is missing": (
        "\nimport no_such_library",
        r"ModuleNotFoundError: No module .*library' \({}, line 2\)\. A",
    ),
    "a module of the package that is missing": (
        "import json.nothing",
        r"ModuleNotFoundError: .*'json.nothing'.*line 1",
    ),
    "no Python": ("\n\ndef model(:\n", r"SyntaxError: invalid syntax \({}, line 3\)\.$"),
    "an error while it is loaded": ("import json\njson.loads('{')", r"JSONDecodeError: Expecting .* \({}, line 2\)\.$"),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("place", ["{}", "{}_package.inner", "{}_whole"])
def test_a_recipe_that_cannot_be_imported(
    what: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the package around it cannot: the line is the user's, and not one of importlib's."""
    text, message = BROKEN[what]
    name = place.format("own_broken_" + what.replace(" ", "_"))
    file = tmp_path / f"{name.replace('.', '/')}.py" if place != "{}_whole" else tmp_path / name / "__init__.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    asked = f"{name}.faces" if place == "{}_whole" else name
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=rf"^recipe '{asked}' cannot be imported: {message.format(file.name)}"):
        load_recipe(asked, {})


def test_a_module_that_a_package_of_ones_own_lacks_is_a_typo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"no recipe 'own_package\.fases'"):
        load_recipe("own_package.fases", {})


def test_digits_give_one_value_a_sample() -> None:

    recipe = load_recipe("digits_cnn", {"channels": 2, "hidden": 4})
    columns = {f"p{number}": np.full(3, number % 17, dtype=np.uint8) for number in range(64)}
    batch = recipe.batch(columns | {"digit": np.array([3, 0, 9])}, "digit")
    assert isinstance(batch, Batch)
    assert batch.inputs.shape == (3, 1, 8, 8)
    assert batch.inputs[0, 0, 1, 2].item() == pytest.approx(10 / 16)
    assert batch.targets.tolist() == [3, 0, 9]
    outputs = recipe.model()(batch.inputs)
    assert outputs.shape == (3, 10)
    assert recipe.losses(outputs, batch.targets).shape == (3,)
    scores = torch.eye(10)[[3, 1, 9]]
    assert recipe.metrics(scores, batch.targets)["accuracy"].tolist() == [True, False, True]
