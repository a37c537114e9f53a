"""Facts that come with the package are those of the recipes as they are. `make facts` measures them anew."""

from __future__ import annotations

import pytest

from drivetrain.recommend.facts import SUFFIX, new_file
from drivetrain.recommend.facts_places import SHIPPED
from drivetrain.training import plugins
from drivetrain.training.recipe import load_recipe
from drivetrain.training_scripts.profile_recipe import measure


@pytest.mark.slow_cases(but=["digits_cnn", "mnist_cnn", "imdb_sentiment"])
@pytest.mark.parametrize("recipe", plugins.recipes_alone("torch"))
def test_stored_facts_match_the_recipe(recipe: str) -> None:
    path = SHIPPED / f"{recipe}{SUFFIX}"
    assert path.is_file(), f"{recipe} was never measured: make facts"
    text = new_file(measure(load_recipe(recipe, {}), recipe, {})).text()
    assert path.read_text(encoding="utf-8") == text, f"{recipe} was changed since it was measured: make facts"


def test_no_facts_of_removed_recipes_remain() -> None:
    assert {path.name.removesuffix(SUFFIX) for path in SHIPPED.iterdir()} == set(plugins.recipes_alone("torch"))
