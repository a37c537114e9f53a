"""Reading what a strategy declares, without importing it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from drivetrain.catalog.strategies import (
    all_strategies,
    framework_of_recipe,
    options_of_recipe,
    read_strategy,
    recipes_folder,
    strategy_names,
)

HEAD = "FRAMEWORK = 'torch'\nDIMENSIONS = ()\nMIN_TORCH = '2.6'\nSUMMARY = ''\n"
FILE = '''"""Doc."""
import torch_that_is_not_there

FRAMEWORK = "torch"
DIMENSIONS = ("stage", "shard")
MIN_TORCH = "2.9"
SUMMARY = "a line"


class Options:
    """Of it."""

    stage: int = 2
    """How many."""
    names: tuple[str, ...] = field(default_factory=tuple)
    must: str


class Strategy: ...
'''


def test_literals_and_options(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "_hidden.py").write_text("")
    found = all_strategies(tmp_path)["mine"]
    assert strategy_names(tmp_path) == ["mine"]
    assert (found.framework, found.dimensions) == ("torch", ("stage", "shard"))
    assert (found.min_torch, found.summary) == ("2.9", "a line")
    stage, names, must = found.options.values()
    assert (stage.name, stage.annotation, stage.default, stage.help) == ("stage", "int", 2, "How many.")
    assert names.default is None and not names.required
    assert must.required


def test_options_of_a_base_in_another_file_come_first(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "more.py").write_text(f"{HEAD}class Options(mine.Options):\n    b: int = 1\n")
    assert list(read_strategy("more", tmp_path).options) == ["stage", "names", "must", "b"]


def test_allowed_values_of_options_are_inherited(tmp_path: Path) -> None:
    allowed = 'CHOICES = {"must": ("a", "b")}\nBOUNDS = {"stage": (1, 4)}\n'
    (tmp_path / "mine.py").write_text(FILE.replace("class Options", f"{allowed}\nclass Options", 1))
    (tmp_path / "more.py").write_text(f"{HEAD}class Options(mine.Options):\n    stage: int = 1\n")
    for name in ("mine", "more"):
        options = read_strategy(name, tmp_path).options
        assert [options["must"].refuses(each) for each in ("a", "c")] == [None, "a, b"]
        assert [options["stage"].refuses(each) for each in (0, 1, 4, 5)] == [
            "whole numbers from 1 to 4", None, None, "whole numbers from 1 to 4"
        ]  # fmt: skip
        assert options["names"].refuses(["x"]) is None


def test_a_file_that_declares_too_little_is_named(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("DIMENSIONS = ()\n")
    with pytest.raises(ValueError, match=r"bare.py is no strategy: .* no SUMMARY, MIN_TORCH, class Options"):
        read_strategy("bare", tmp_path)


def test_the_shipped_ones_are_read() -> None:
    found = all_strategies()
    assert {"single", "ddp"} <= set(found)
    assert found["ddp"].dimensions == ("replicate",)
    assert all(each.summary for each in found.values())
    assert all(each.min_torch[0].isdigit() for each in all_strategies(framework="torch").values())
    assert found["tf_single"].framework == "tensorflow" and not found["tf_single"].min_torch


def test_of_another_framework(tmp_path: Path) -> None:
    """It needs no torch, so it does not say which."""
    text = "FRAMEWORK = 'other'\nDIMENSIONS = ()\nSUMMARY = ''\nclass Options:\n    pass\n"
    (tmp_path / "theirs.py").write_text(text)
    (tmp_path / "mine.py").write_text(FILE)
    assert list(all_strategies(tmp_path)) == ["mine", "theirs"]
    assert list(all_strategies(tmp_path, framework="other")) == ["theirs"]
    assert framework_of_recipe(tmp_path / "theirs.py") == "other"


def test_a_recipe_without_a_framework_is_for_torch(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("class Recipe: ...\n")
    (tmp_path / "torn.py").write_text("class (")
    assert [framework_of_recipe(tmp_path / f"{name}.py") for name in ("old", "torn", "none")] == ["torch"] * 3


def test_options_of_a_recipe_are_the_fields_of_its_dataclass(tmp_path: Path) -> None:
    from drivetrain.training_scripts.recipes import decoder_lm

    fields = tuple(field.name for field in dataclasses.fields(decoder_lm.Recipe))
    assert options_of_recipe(recipes_folder() / "decoder_lm.py") == fields
    own = tmp_path / "own.py"
    own.write_text("class Recipe(Base):\n    size: int = 1\n")
    assert options_of_recipe(own) is None  # its base may have more
