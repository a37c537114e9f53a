"""The measuring program as a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.recommend.facts import new_file
from drivetrain.recommend.profile import measure

RECIPE = """
from dataclasses import dataclass
from drivetrain.training_scripts.recipes import digits_cnn

print("a recipe may say something when it is imported")

@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    pass
"""


@pytest.mark.slow
def test_a_recipe_of_ones_own_is_found_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RECIPE)
    measured = measure("mine", {"hidden": 16}, tmp_path, write_speed=tmp_path)
    facts = new_file(measured, "local").find({"hidden": 16})
    assert facts is not None and facts.recipe == "mine" and facts.optimizer == "AdamW"
    assert facts.checkpoint_bytes_per_second["local"] > 0
    with pytest.raises(UserError, match=r"recipe 'mine' has no option 'hiden'\. Did you mean 'hidden'"):
        measure("mine", {"hiden": 16}, tmp_path)


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    with pytest.raises(UserError, match=r"takes torch, .* pip install 'drivetrain\[torch\]'"):
        measure("digits_cnn", {}, tmp_path)


def test_a_crash_is_reported_by_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('the wrong torch')")
    with pytest.raises(UserError, match="recipe 'digits_cnn' cannot be measured: RuntimeError: the wrong torch"):
        measure("digits_cnn", {}, tmp_path)
